"""Trees of files as boards show them under /proc, /etc, /sys and /var, and a folder made from one.

One entry a line: `F path = content` (`\\0` and `\\n` stand for a NUL byte and a line feed; a line feed is appended,
unless the content ends in a NUL byte), `L path -> target` (relative to the link's folder), `D path`; `#` begins a
comment. Blanks at the end of a line belong to the content: older kernels end lists with one.
"""

from __future__ import annotations

from pathlib import Path

from devices.agent.sysfs import SysFs

BOARDS = Path(__file__).parents[2] / "data" / "boards"
NAMES = tuple(sorted(path.stem for path in BOARDS.glob("*.tree")))


def plant(name: str, root: Path) -> SysFs:
    """The tree of that name under `root`, as the agent sees it."""
    for line in (BOARDS / f"{name}.tree").read_text(encoding="utf-8").split("\n"):
        kind, _, rest = line.partition(" ")
        if kind == "D":
            (root / rest).mkdir(parents=True, exist_ok=True)
        elif kind == "L":
            path, _, target = rest.partition(" -> ")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
        elif kind == "F":
            path, _, content = rest.partition(" = ")
            put(root, path, content.replace("\\0", "\0").replace("\\n", "\n"))
    return SysFs(str(root))


def put(root: Path, path: str, content: str) -> None:
    """One file, made or replaced."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if content.endswith("\0") else content + "\n", encoding="utf-8")
