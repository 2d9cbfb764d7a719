"""The recorded table in memory: its rows, its settings, and the questions replay and tuner ask of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Literal, cast

from devices.device import Knob, Setting
from devices.errors import ProfileError
from devices.measurement import STATISTICS, Measurement, Statistic, Status

METRICS = (
    "throughput",
    "step_time_s",
    "power_mean_w",
    "power_p95_w",
    "power_peak_w",
    "energy_j",
    "duration_s",
    "samples",
)

Provenance = Literal["measured", "emulated"]


@dataclass(frozen=True)
class ProfileMetadata:
    """What a profile says of itself.

    Attributes:
        device: The device that was measured, in words.
        workload: What was trained.
        origin: Where the data come from, free text.
        licence: The licence of the data.
        throughput_unit: `<what>/s`, `/min` or `/h`.
        recorded_at: When it was recorded, ISO 8601.
        provenance: `emulated` for a recorded emulation, which never replays as a measurement.
        default_setting: What the device runs at when nobody tunes it, or None where that is not known.
        extra: Keys the house does not know, kept as they are.
    """

    device: str | None = None
    workload: str | None = None
    origin: str | None = None
    licence: str | None = None
    throughput_unit: str = "samples/s"
    recorded_at: str | None = None
    provenance: Provenance = "measured"
    default_setting: Setting | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProfileRow:
    """One recorded burst; None where nothing was recorded.

    `throughput` is in the profile's unit, and `samples` counts that unit's work (samples, epochs) in `duration_s`.
    `line` is the line of the file, for messages; two rows that differ only in it are equal.
    """

    setting: Setting
    status: Status
    throughput: float | None = None
    step_time_s: float | None = None
    power_mean_w: float | None = None
    power_p95_w: float | None = None
    power_peak_w: float | None = None
    energy_j: float | None = None
    duration_s: float | None = None
    samples: float | None = None
    line: int | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Whether this is a valid measurement."""
        return self.status is Status.OK

    def power(self, statistic: Statistic) -> float | None:
        """The power in watts by `statistic`, or None where it was not recorded."""
        return cast("float | None", getattr(self, f"power_{statistic}_w"))

    @classmethod
    def from_measurement(cls, setting: Setting, measurement: Measurement) -> ProfileRow:
        """The row that records `measurement`."""
        metrics = {name: getattr(measurement, name) for name in METRICS}
        return cls(setting=dict(setting), status=measurement.status, line=None, **metrics)


@dataclass(frozen=True)
class Cell:
    """Means over the ok replicates of one setting; `power_w` by the statistic asked for, None if not recorded."""

    setting: Setting
    throughput: float
    power_w: float | None
    replicates: int


@dataclass(frozen=True)
class Profile:
    """A recorded table: metadata, the names of its knobs in column order, and its rows in recorded order.

    Raises:
        ProfileError: no knob, no row, or a setting that does not name each knob once.
    """

    metadata: ProfileMetadata
    knob_names: tuple[str, ...]
    rows: tuple[ProfileRow, ...]

    def __post_init__(self) -> None:
        if not self.knob_names or not self.rows:
            raise ProfileError("a profile needs one knob and one row or more")
        names = set(self.knob_names)
        settings = [row.setting for row in self.rows]
        if self.metadata.default_setting is not None:
            settings.append(self.metadata.default_setting)
        for setting in settings:
            if set(setting) != names:
                raise ProfileError(f"the setting {format_setting(setting)} does not name each of {sorted(names)} once")

    @property
    def throughput_unit(self) -> str:
        """The unit of the throughput column."""
        return self.metadata.throughput_unit

    @cached_property
    def knob_values(self) -> dict[str, tuple[float, ...]]:
        """The recorded values of each knob, ascending."""
        return {name: tuple(sorted({row.setting[name] for row in self.rows})) for name in self.knob_names}

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs with their recorded values, in column order."""
        default = self.metadata.default_setting or {}
        return tuple(Knob(name, self.knob_values[name], default.get(name)) for name in self.knob_names)

    @cached_property
    def _replicates(self) -> dict[tuple[float, ...], tuple[ProfileRow, ...]]:
        grouped: dict[tuple[float, ...], list[ProfileRow]] = {}
        for row in self.rows:
            grouped.setdefault(self.key(row.setting), []).append(row)
        return {key: tuple(grouped[key]) for key in sorted(grouped)}

    def key(self, setting: Setting) -> tuple[float, ...]:
        """The values of `setting` in the order of the knobs."""
        return tuple(setting[name] for name in self.knob_names)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The recorded settings, whatever their status, the last knob varying fastest."""
        return tuple(dict(zip(self.knob_names, key, strict=True)) for key in self._replicates)

    @property
    def grid_size(self) -> int:
        """The number of combinations of the knobs' values."""
        return math.prod(len(values) for values in self.knob_values.values())

    @property
    def missing_count(self) -> int:
        """How many combinations of the knobs' values were not recorded."""
        return self.grid_size - len(self._replicates)

    def missing_settings(self, most: int) -> tuple[Setting, ...]:
        """The first combinations of the knobs' values that were not recorded, at most `most`."""
        if not self.missing_count:
            return ()
        combinations = itertools.product(*self.knob_values.values())
        missing = itertools.islice((key for key in combinations if key not in self._replicates), most)
        return tuple(dict(zip(self.knob_names, key, strict=True)) for key in missing)

    def replicates(self, setting: Setting) -> tuple[ProfileRow, ...]:
        """The rows at `setting` in recorded order; empty where it was not recorded."""
        return self._replicates.get(self.key(setting), ())

    @property
    def ok_rows(self) -> tuple[ProfileRow, ...]:
        """The valid measurements."""
        return tuple(row for row in self.rows if row.ok)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics of power that every ok row has, in the order of preference for the cap."""
        return tuple(s for s in STATISTICS if all(row.power(s) is not None for row in self.ok_rows))

    def power_range_w(self, statistic: Statistic = "mean") -> tuple[float, float] | None:
        """Lowest and highest power over the ok rows in watts, or None where none was recorded."""
        powers = [power for row in self.ok_rows if (power := row.power(statistic)) is not None]
        return (min(powers), max(powers)) if powers else None

    def cells(self, statistic: Statistic = "mean") -> tuple[Cell, ...]:
        """The means of every setting that has an ok row, in the order of `settings`."""
        found = []
        for key, rows in self._replicates.items():
            speeds = [row.throughput for row in rows if row.ok and row.throughput is not None]
            powers = [power for row in rows if row.ok and (power := row.power(statistic)) is not None]
            if speeds:
                setting = dict(zip(self.knob_names, key, strict=True))
                power_w = fmean(powers) if len(powers) == len(speeds) else None
                found.append(Cell(setting, fmean(speeds), power_w, len(speeds)))
        return tuple(found)

    def best_feasible(self, cap_w: float | None, statistic: Statistic = "mean") -> Cell | None:
        """The cell of the highest mean throughput whose mean power is at most `cap_w` watts; None if no cell is.

        Of two equally fast cells the one of less power is taken. Without a cap every cell is feasible.
        """
        feasible = [
            cell
            for cell in self.cells(statistic)
            if cap_w is None or (cell.power_w is not None and cell.power_w <= cap_w)
        ]
        return max(feasible, key=lambda cell: (cell.throughput, -(cell.power_w or 0.0)), default=None)


def format_setting(setting: Setting) -> str:
    """`setting` as people and metadata write it: `batch_size=192, power_limit_w=250`."""
    return ", ".join(f"{name}={number_text(value)}" for name, value in setting.items())


def number_text(value: float) -> str:
    """`value` so that reading it back gives the same number."""
    number = float(value)
    if not math.isfinite(number):
        raise ProfileError(f"{number} cannot be recorded", hint="leave out what was not measured")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
