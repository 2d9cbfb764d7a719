"""Output files: checked before the work, written whole or not at all after it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from devices.errors import InputError

NamedPath = tuple[str, Path | None]
"""An option, or another word for a file, and the file; None: not asked for."""


def check_files(
    written: Iterable[NamedPath], *, read: Iterable[NamedPath] = (), kept: Iterable[NamedPath] = ()
) -> None:
    """Check before the work that every file can be written, without losing one that is read or another one.

    Args:
        written: Files to be written, by their options.
        read: Files that are read.
        kept: Files that are changed in place, such as a store, which whoever opens them checks.

    Raises:
        InputError: a file that cannot be written, or is named for two things.
    """
    names = {path.resolve(): what for what, path in read if path is not None}
    for checked, pairs in ((False, kept), (True, written)):
        for option, path in pairs:
            if path is None:
                continue
            if checked:
                require_writable(path, option)
            other = names.setdefault(path.resolve(), option)
            if other != option:
                raise InputError(f"{option} and {other} are the same file {path}", hint=f"another file for {option}")


def require_writable(path: Path, option: str = "--out") -> None:
    """Check before an hour of bursts that `path` can be written after it, by beginning to.

    Args:
        path: The file.
        option: What names it on the command line.

    Raises:
        InputError: it is a folder, a device or a pipe, its folder does not exist, or no file can be made there.
    """
    another = f"{option} FILE, in a folder you may write"
    folder = path.absolute().parent
    try:
        if path.is_dir():
            raise InputError(f"{option} {path} is a folder", hint=f"{option} FILE")
        if path.exists() and not path.is_file():  # it would be replaced, a device of the machine too
            raise InputError(f"{option} {path} is no regular file", hint=f"{option} FILE")
        if not folder.is_dir():
            raise InputError(
                f"{option}: cannot write {path}: there is no folder {folder}", hint=f"mkdir -p {folder}, or {another}"
            )
        handle, temporary = _beside(path)
        os.close(handle)
        temporary.unlink()
    except (OSError, ValueError) as error:
        raise _unwritable(path, option, error) from error


def write_json(document: Mapping[str, Any], path: Path, option: str = "--out") -> None:
    """Write `document` whole or not at all.

    Raises:
        InputError: the file cannot be written there.
    """
    write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", path, option)


def write_text(text: str, path: Path, option: str = "--out") -> None:
    """Write `text` whole or not at all.

    Raises:
        InputError: the file cannot be written there.
    """
    write_bytes(text.encode("utf-8"), path, option)


def write_bytes(content: bytes, path: Path, option: str = "--out") -> None:
    """Write `content` whole or not at all; `option` names the file on the command line.

    Raises:
        InputError: the file cannot be written there.
    """
    try:
        handle, temporary = _beside(path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path, option, error) from error


def _beside(path: Path) -> tuple[int, Path]:
    """An open temporary file in the folder of `path`."""
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".tmp")
    return handle, Path(name)


def _unwritable(path: Path, option: str, error: OSError | ValueError) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{option}: cannot write {path}: {reason}", hint=f"{option} FILE, in a folder you may write")
