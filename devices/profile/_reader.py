"""Reading the CSV format; every refusal names file, line and column, and its hint what mends it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NoReturn, cast

from devices.device import BATCH_KNOB, KNOB_UNITS, Setting, knob_value
from devices.errors import ProfileError
from devices.measurement import Status, seconds_per_unit
from devices.profile._table import METRICS, Profile, ProfileMetadata, ProfileRow, Provenance, format_setting
from devices.profile._text import parse_number, read_text, split_cells

KNOWN_KEYS = (
    "device",
    "workload",
    "origin",
    "licence",
    "throughput_unit",
    "recorded_at",
    "knobs",
    "provenance",
    "default_setting",
)
_LARGEST = 1e12  # beyond, and below its inverse, squares and quotients leave the range of floats
_METADATA_LINE = re.compile(r"#\s*([A-Za-z_][\w .-]*?)\s*:(?!//)\s*(.*)")
_EXAMPLE = "a header such as gpu_freq_mhz,batch_size,throughput,power_mean_w,status"


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read and check a recorded profile.

    Raises:
        ProfileError: the file cannot be used; the message names file, line and column, the hint what mends it.
    """
    return _Reader(path).read()


class _Reader:
    """One reading of one file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.keys: dict[str, tuple[int, str]] = {}  # metadata: line and value
        self.columns: list[str] = []

    def fail(self, what: str, hint: str, line: int | None = None, column: str | None = None) -> NoReturn:
        where = str(self.path) + (f" line {line}" if line else "") + (f", column '{column}'" if column else "")
        raise ProfileError(f"{where}: {what}", hint=hint, path=str(self.path), line=line, column=column)

    def read(self) -> Profile:
        rows: list[ProfileRow] = []
        for number, line in enumerate(read_text(self.path).split("\n"), start=1):
            if line.startswith("#"):
                self.metadata_line(number, line)
            elif line.strip(" \t,"):
                try:
                    cells = split_cells(line)
                except ValueError as error:
                    self.fail(str(error), "close or remove the quotation mark", number)
                if self.columns:
                    rows.append(self.row(number, cells))
                else:
                    self.header(number, cells)
        if not self.columns:
            self.fail("there is no header", f"add {_EXAMPLE}")
        if not rows:
            self.fail("there is no row below the header", "record one with `tune record`")
        if not any(row.ok for row in rows):
            self.fail("no row has status ok", "a profile needs one valid measurement or more")
        knob_names = tuple(name for name in self.columns if name not in (*METRICS, "status"))
        return Profile(self.metadata(knob_names, rows), knob_names, tuple(rows))

    def metadata_line(self, number: int, line: str) -> None:
        match = _METADATA_LINE.fullmatch(line.rstrip())
        if match is None:
            return  # a free remark
        key, value = match[1], match[2]
        if key.lower() in (*KNOWN_KEYS, "license", "source"):
            key = {"license": "licence"}.get(key.lower(), key.lower())
            if key in self.keys:
                self.fail(f"the metadata key '{key}' is given twice", "keep one of the two lines", number)
            self.keys[key] = (number, value)
        else:
            before = f"{self.keys[key][1]}; " if key in self.keys else ""
            self.keys[key] = (number, before + value)

    def header(self, number: int, cells: list[str]) -> None:
        if len(cells) == 1 and ";" in cells[0]:
            self.fail("the cells are separated by semicolons", "separate them by commas", number)
        for index, name in enumerate(cells, start=1):
            if not name:
                self.fail(f"column {index} has no name", "name it, or remove the column", number)
            if cells.index(name) != index - 1:
                self.fail("the column appears twice", "remove or rename one of the two", number, name)
        for required in ("throughput", "status"):
            if required not in cells:
                alike = [name for name in cells if name.lower() == required]
                hint = f"rename the column '{alike[0]}'" if alike else f"add the column, as in {_EXAMPLE}"
                self.fail(f"there is no column '{required}'", hint, number)
        if all(name in (*METRICS, "status") for name in cells):
            self.fail("there is no knob column", "add one, such as gpu_freq_mhz or batch_size", number)
        self.columns = cells

    def row(self, number: int, cells: list[str]) -> ProfileRow:
        if len(cells) != len(self.columns):
            what = f"the row has {len(cells)} cells, the header {len(self.columns)}"
            if len(cells) < len(self.columns):
                self.fail(f"{what}; the row is cut off", "complete the row or remove it", number)
            self.fail(what, "remove what is too much; write decimals with a point", number)
        setting: dict[str, float] = {}
        metrics: dict[str, float | None] = {}
        status = Status.OK
        for name, text in zip(self.columns, cells, strict=True):
            if name == "status":
                try:
                    status = Status(text)
                except ValueError:
                    self.fail(f"'{text}' is not a status", f"use one of {', '.join(Status)}", number, name)
            elif name in METRICS:
                metrics[name] = self.metric(text, number, name)
            else:
                setting[name] = self.knob(text, number, name)
        if status is Status.OK and not metrics["throughput"]:
            what = "an ok row has no throughput" if metrics["throughput"] is None else "an ok row has throughput 0"
            self.fail(what, "fill it in, or give the row the status it had", number, "throughput")
        return ProfileRow(setting=setting, status=status, line=number, **metrics)

    def number(self, text: str, line: int, column: str) -> float:
        try:
            return parse_number(text)
        except ValueError as error:
            self.fail(str(error) if text else "the cell is empty", "write a plain number, such as 510", line, column)

    def knob(self, text: str, line: int, column: str) -> float:
        value = self.number(text, line, column)
        if column == BATCH_KNOB and (value < 1 or not value.is_integer()):
            self.fail(f"{text} is no batch size", "a batch size is a whole number of 1 or more", line, column)
        if column in KNOB_UNITS and value <= 0:
            self.fail(f"{text} is not above 0", f"write {column} as a number above 0", line, column)
        if abs(value) > _LARGEST:
            self.fail(f"{text} is out of range", f"write a number of at most {_LARGEST:g}", line, column)
        return knob_value(value)

    def metric(self, text: str, line: int, column: str) -> float | None:
        if not text:
            return None
        value = self.number(text, line, column)
        if value < 0:
            self.fail(f"{text} is negative", "write a number of 0 or more, or leave the cell empty", line, column)
        if value > _LARGEST or 0 < value < 1 / _LARGEST:
            hint = f"write a number from {1 / _LARGEST:g} to {_LARGEST:g}"
            self.fail(f"{text} is out of range", hint, line, column)
        return value

    def metadata(self, knob_names: tuple[str, ...], rows: Sequence[ProfileRow]) -> ProfileMetadata:
        values = {key: value for key, (_, value) in self.keys.items()}
        lines = {key: line for key, (line, _) in self.keys.items()}
        # Before `provenance` existed, recorded emulations said so in `source`.
        provenance = values.get("provenance") or ("emulated" if values.get("source") == "emulated" else "measured")
        if provenance not in ("measured", "emulated"):
            what = f"'{provenance}' is not a provenance"
            self.fail(what, "use measured or emulated", lines["provenance"], "provenance")
        if "origin" not in values and "source" in values:
            values["origin"] = values.pop("source")
        named = values.get("knobs")
        if named and {name.strip() for name in named.split(",")} != set(knob_names):
            what = f"the knobs are said to be '{named}', but the knob columns are '{', '.join(knob_names)}'"
            self.fail(what, "make the line `# knobs:` and the header agree", lines["knobs"])
        unit = values.get("throughput_unit") or "samples/s"
        try:
            seconds_per_unit(1.0, unit)
        except ValueError as error:
            self.fail(str(error), "write it like samples/s or epochs/h", lines["throughput_unit"])
        default = None
        if text := values.get("default_setting"):
            default = self.default_setting(text, lines["default_setting"], knob_names, rows)
        return ProfileMetadata(
            device=values.get("device") or None,
            workload=values.get("workload") or None,
            origin=values.get("origin") or None,
            licence=values.get("licence") or None,
            throughput_unit=unit,
            recorded_at=values.get("recorded_at") or None,
            provenance=cast("Provenance", provenance),
            default_setting=default,
            extra={key: value for key, value in values.items() if key not in KNOWN_KEYS},
        )

    def default_setting(self, text: str, line: int, knob_names: tuple[str, ...], rows: Sequence[ProfileRow]) -> Setting:
        example = "write it like " + format_setting(next(row.setting for row in rows if row.ok))
        pairs = [pair.partition("=") for pair in text.split(",")]
        try:
            setting = {name.strip(): knob_value(parse_number(value.strip())) for name, _, value in pairs}
        except ValueError as error:
            self.fail(f"the default setting '{text}' cannot be read: {error}", example, line)
        if set(setting) != set(knob_names) or len(pairs) != len(knob_names):
            what = f"the default setting '{text}' does not name each knob once ({', '.join(knob_names)})"
            self.fail(what, example, line)
        return {name: setting[name] for name in knob_names}
