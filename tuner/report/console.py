"""The consoles that people read: prose keeps to the width, with what belongs together under each other."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tuner.report.streams import silence

MOST_COLUMNS = 1000  # columns away from a terminal: whoever reads that wants whole lines, unless COLUMNS says otherwise
_HANGING = "  "
_TOGETHER = re.compile(r"(?<=[0-9<=>]) (?=[\w%])")  # a figure and its unit


class PlainConsole(Console):
    """A console whose text is never markup, and that goes on in silence when its reader has gone.

    A text that is too long goes on in the next line, a little further in; no word is broken. With `soft_wrap` it stays
    one line, as does what is to be copied.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        if len(objects) == 1 and isinstance(objects[0], str | Text) and not options.get("soft_wrap", self.soft_wrap):
            objects, options["soft_wrap"] = (_hanging(objects[0], self.width),), True
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        silence(self.file)
        self.quiet = True


def _hanging(printed: str | Text, width: int) -> Text:
    lines = [_hang(line, width) for line in str(printed).split("\n")]
    return Text("\n".join(lines), style=printed.style if isinstance(printed, Text) else "")


def _hang(line: str, width: int) -> str:
    own = line[: len(line) - len(line.lstrip(" "))]
    filled = textwrap.fill(
        _TOGETHER.sub("\N{NO-BREAK SPACE}", line),
        max(width, 20),
        subsequent_indent=own + _HANGING,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\N{NO-BREAK SPACE}", " ")


def console(*, stderr: bool = False) -> Console:
    """A console for standard output, or standard error; away from a terminal it breaks lines if COLUMNS is set."""
    file = sys.stderr if stderr else sys.stdout
    broken = file.isatty() or os.environ.get("COLUMNS", "").lstrip("0").isdecimal()
    return PlainConsole(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not broken,
        width=None if broken else MOST_COLUMNS,
    )


def count_bar(out: Console, what: str) -> Progress:
    """A bar that counts `what` and goes away in the end; a task's description stands behind it."""
    return Progress(
        SpinnerColumn(),
        TextColumn(what, markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=out,
        transient=True,
    )
