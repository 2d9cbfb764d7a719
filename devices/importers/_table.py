"""A foreign CSV table with a header, read as named cells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devices.errors import ProfileError
from devices.profile import parse_number, read_text, split_cells


@dataclass(frozen=True)
class TableRow:
    """One row of a foreign table."""

    path: str
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """The cell as it is written."""
        return self.cells[column]

    def number(self, column: str) -> float:
        """The cell as a number above 0; nothing in these tables can be 0 or less.

        Raises:
            ProfileError: it is none.
        """
        try:
            value = parse_number(self.cells[column])
        except ValueError as error:
            raise self._error(column, str(error)) from None
        if value <= 0:
            raise self._error(column, f"{self.cells[column]} is not above 0")
        return value

    def whole(self, column: str) -> int:
        """The cell as a whole number above 0.

        Raises:
            ProfileError: it is none.
        """
        value = self.number(column)
        if not value.is_integer():
            raise self._error(column, f"{self.cells[column]} is not a whole number")
        return int(value)

    def _error(self, column: str, what: str) -> ProfileError:
        message = f"{self.path} line {self.line}, column '{column}': {what}"
        return ProfileError(message, hint="fetch the file again", path=self.path, line=self.line, column=column)


@dataclass(frozen=True)
class Table:
    """A foreign table: its path, columns and rows."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]

    def has(self, columns: Sequence[str]) -> bool:
        """Whether all of `columns` are there."""
        return set(columns) <= set(self.columns)


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a CSV table with a header.

    Raises:
        ProfileError: the file cannot be read, a row does not fit the header, or there is no row.
    """
    columns: list[str] = []
    rows: list[TableRow] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            cells = split_cells(line)
            if not columns:
                columns = cells
                continue
            rows.append(TableRow(str(path), number, dict(zip(columns, cells, strict=True))))
        except ValueError:
            message = f"{path} line {number}: the row does not fit the header of {len(columns)} columns"
            raise ProfileError(message, hint="fetch the file again", path=str(path), line=number) from None
    if not rows:
        raise ProfileError(f"{path} has no row below the header", hint="fetch the file again", path=str(path))
    return Table(str(path), tuple(columns), tuple(rows))
