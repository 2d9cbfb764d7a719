"""Draw a command and what it prints as an SVG of a terminal: `python -m experiments.screenshot OUT.svg -- tune ...`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def main(out: Path, command: list[str], width: int = 118) -> None:
    """Run `command` and write what it printed, with the command itself, to `out`."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {' '.join(command)}", style="bold"))
    for line in done.stdout.rstrip().splitlines():
        console.print(Text(line, style=_style(line)))
    svg = console.export_svg(title=command[0], unique_id="screen")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # they would be fetched from elsewhere
    out.write_text(svg.replace("Fira Code", "monospace"))


def _style(line: str) -> str:
    if "above the cap" in line or ": oom" in line or ", oom" in line:
        return "yellow"
    if line.startswith(("recommended", "gain", "frozen")):
        return "bold green"
    return "dim" if line.startswith(("note", "held fixed")) else ""


if __name__ == "__main__":
    separator = sys.argv.index("--")
    main(Path(sys.argv[1]), sys.argv[separator + 1 :])
