"""Standard streams that may be closed, full or of another encoding."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import IO


def prepare() -> None:
    """Give every standard stream something to write to, and let no character be unprintable."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller (>&-)
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def silence(stream: IO[str]) -> None:
    """Send the rest of `stream` nowhere: its reader has gone, or its disk is full."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # a stream without a file beneath it
        return
