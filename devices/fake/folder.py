"""Where a fake board may come to be: an empty folder, or one that is not there yet."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from devices.errors import InputError

_OTHER = "name an empty folder, or one that does not exist yet"


def empty_folder(directory: str | Path) -> Path:
    """The folder, made where there is none; absolute and without links.

    Raises:
        InputError: it is no folder, holds something, cannot be written, or something is mounted on it.
    """
    folder = Path(os.path.realpath(directory))
    if is_mounted(folder):
        raise InputError(
            f"something is mounted on {folder}, perhaps a fake board whose command was killed",
            hint=f"fusermount3 -u -z {shlex.quote(str(folder))}",
        )
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is no folder", hint=_OTHER)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty", hint=_OTHER)
    except OSError as error:
        raise InputError(f"{folder} cannot be used: {error.strerror or error}", hint=_OTHER) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written", hint=_OTHER)
    return folder


def is_mounted(folder: Path) -> bool:
    """Whether something is mounted there, alive or dead."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    return any(_plain(line.split()[1]) == str(folder) for line in mounts.splitlines())


def _plain(text: str) -> str:
    """A name as it is: the kernel writes blanks and such in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
