"""Text tables as they come from disks and spreadsheets: decoding, cells, numbers."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

from devices.errors import ProfileError


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a table, without its byte-order mark, lines ended by newlines.

    Raises:
        ProfileError: missing, a folder, unreadable, empty or not UTF-8 text.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ProfileError(f"{path} does not exist", hint="check the path of the profile", path=str(path)) from None
    except IsADirectoryError:
        raise ProfileError(f"{path} is a folder", hint="name the CSV file inside it", path=str(path)) from None
    except OSError as error:
        raise ProfileError(
            f"{path} cannot be read: {error.strerror}", hint="check its rights", path=str(path)
        ) from error
    hint = "save the table as CSV in UTF-8"
    if b"\0" in data:
        raise ProfileError(f"{path} is not a text file (it holds NUL bytes)", hint=hint, path=str(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProfileError(f"{path} line {line} is not UTF-8 text", hint=hint, path=str(path), line=line) from None
    if not text.strip():
        raise ProfileError(f"{path} is empty", hint="a table has a header and rows", path=str(path))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_number(text: str) -> float:
    """The finite number that `text` writes.

    Raises:
        ValueError: it writes none; the message says so.
    """
    try:
        number = float("_" if "_" in text else text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"'{text}' is not a finite number")
    return number


def split_cells(line: str) -> list[str]:
    """The cells of one line of CSV, stripped.

    Raises:
        ValueError: a quotation mark that is not closed, or a cell too long.
    """
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error:
        raise ValueError("the quotation marks of the line do not match") from None
