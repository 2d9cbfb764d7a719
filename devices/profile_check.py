"""What is suspicious in a recorded profile: faults of the table that reading it cannot see."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from devices.device import BATCH_KNOB
from devices.measurement import STATISTICS, Status, seconds_per_unit
from devices.profile import METRICS, Profile, ProfileRow, find_outliers, format_setting

Severity = Literal["fault", "warning", "note"]

_EXAMPLES = 3
_TOLERANCE = 0.10  # between figures that should say the same
_SPREAD = 1.3  # largest over smallest of the replicates of one setting
_POWER_W = (0.2, 2000.0)  # of one accelerator; milliwatts and kilowatts lie outside
_HIGHEST_CLOCK_MHZ = 10_000.0


@dataclass(frozen=True)
class Finding:
    """Something suspicious.

    Attributes:
        severity: `fault`: figures that cannot be right; `warning`: figures that look wrong; `note`: good to know.
        what: What was found.
        where: Rows, columns or settings, with examples.
        mend: What to do about it.
    """

    severity: Severity
    what: str
    where: str
    mend: str


def check_profile(profile: Profile) -> list[Finding]:
    """Everything suspicious in `profile`, faults first; empty where nothing is.

    Found are values out of line with their neighbours, power that is zero or constant, units that cannot be, figures
    that contradict each other, duplicates, gaps, and rows that are not ok.
    """
    checks = (
        _units,
        _zero_power,
        _constant_power,
        _contradictions,
        _out_of_memory,
        _outliers,
        _replicates,
        _duplicates,
        _knob_like_a_metric,
        _gaps,
        _failed_rows,
    )
    severities: tuple[Severity, ...] = ("fault", "warning", "note")
    return sorted((f for check in checks for f in check(profile)), key=lambda f: severities.index(f.severity))


def _units(profile: Profile) -> Iterator[Finding]:
    counted = profile.metadata.extra.get("gpus", "")
    gpus = int(counted) if counted.isdecimal() and int(counted) else 1  # the power may be that of several together
    for statistic in STATISTICS:
        powers = [power / gpus for row in profile.ok_rows if (power := row.power(statistic))]
        if powers and not _POWER_W[0] <= median(powers) <= _POWER_W[1]:
            what = f"half of the values are {'above' if median(powers) > 1 else 'below'} {median(powers):.4g} W"
            mend = "give power in watts: 1000 mW = 1 W = 0.001 kW"
            yield Finding("fault", what, f"column power_{statistic}_w", mend)
    for name, values in profile.knob_values.items():
        if name.endswith("_mhz") and values[-1] > _HIGHEST_CLOCK_MHZ:
            what = f"a clock of {values[-1]:.6g} MHz is not possible"
            yield Finding("fault", what, f"column {name}", "give clocks in MHz: 510000 kHz = 510 MHz")


def _zero_power(profile: Profile) -> Iterator[Finding]:
    for statistic in STATISTICS:
        rows = [row for row in profile.ok_rows if row.power(statistic) == 0]
        if rows:
            mend = "a meter that reads 0 W failed: measure these settings again, or remove the rows"
            yield Finding("fault", f"{len(rows)} ok rows have a power of 0 W", _where(rows), mend)
            return


def _constant_power(profile: Profile) -> Iterator[Finding]:
    for statistic in STATISTICS:
        powers = [power for row in profile.ok_rows if (power := row.power(statistic)) is not None]
        if len(profile.cells()) > 2 and len(powers) > 2 and len(set(powers)) == 1 and powers[0] > 0:
            what = f"all {len(powers)} ok rows have the same power of {powers[0]:.6g} W"
            mend = "read the meter during every burst; a rated or once read power is no measurement"
            yield Finding("fault", what, f"column power_{statistic}_w", mend)


def _contradictions(profile: Profile) -> Iterator[Finding]:
    """Figures of one row that should agree and do not."""
    unit = profile.throughput_unit

    def order(row: ProfileRow) -> bool:
        powers = [power for s in ("mean", "p95", "peak") if (power := row.power(s)) is not None]
        return any(low > high * 1.001 for low, high in itertools.pairwise(powers))

    def energy(row: ProfileRow) -> bool:
        return _disagree(row.energy_j, _product(row.power_mean_w, row.duration_s))

    def work(row: ProfileRow) -> bool:
        seconds = seconds_per_unit(row.throughput, unit) if row.throughput else None
        return _disagree(row.duration_s, _product(row.samples, seconds))

    def step(row: ProfileRow) -> bool:
        if BATCH_KNOB not in row.setting or not row.throughput or not unit.startswith("samples/"):
            return False
        return _disagree(row.step_time_s, row.setting[BATCH_KNOB] * seconds_per_unit(row.throughput, unit))

    rules: tuple[tuple[Callable[[ProfileRow], bool], str, str], ...] = (
        (order, "have a mean power above p95, or p95 above the peak", "see whether two columns are exchanged"),
        (energy, "have an energy_j that is not power_mean_w x duration_s within 10 %", "energy in joules, not in Wh"),
        (work, f"have samples / duration_s that are not the throughput ({unit}) within 10 %", "check throughput_unit"),
        (
            step,
            "have a step_time_s that is not batch_size / throughput within 10 %",
            "step time in s; samples, not steps",
        ),
    )
    for rule, what, mend in rules:
        rows = [row for row in profile.ok_rows if rule(row)]
        if rows:
            yield Finding("fault", f"{len(rows)} ok rows {what}", _where(rows), mend)


def _out_of_memory(profile: Profile) -> Iterator[Finding]:
    if BATCH_KNOB not in profile.knob_names:
        return
    largest = max(row.setting[BATCH_KNOB] for row in profile.ok_rows)
    rows = [row for row in profile.rows if row.status is Status.OOM and row.setting[BATCH_KNOB] < largest]
    if rows:
        what = f"{len(rows)} rows ran out of memory below batch size {largest}, which trained"
        mend = "something else held the memory: measure these settings again"
        yield Finding("warning", what, _where(rows), mend)


def _outliers(profile: Profile) -> Iterator[Finding]:
    for name in ("throughput", "power_mean_w", "power_p95_w", "power_peak_w"):
        for outlier in find_outliers(profile, name):
            what = f"{name} is {outlier.value:.4g}, its neighbours lead one to expect {outlier.expected:.4g}"
            yield Finding("warning", what, format_setting(outlier.setting), "measure this setting again")


def _replicates(profile: Profile) -> Iterator[Finding]:
    for name in ("throughput", "power_mean_w"):
        apart = []
        for setting in profile.settings:
            values = [value for row in profile.replicates(setting) if row.ok and (value := getattr(row, name))]
            if values and max(values) > _SPREAD * min(values):
                apart.append(f"{format_setting(setting)} ({min(values):.4g} to {max(values):.4g})")
        if apart:
            what = f"the replicates of {len(apart)} settings differ in {name} by more than a factor of {_SPREAD}"
            yield Finding("warning", what, _examples(apart), "measure these settings again, with a longer warm-up")


def _duplicates(profile: Profile) -> Iterator[Finding]:
    groups: dict[tuple[object, ...], list[ProfileRow]] = {}
    for row in profile.ok_rows:
        identity = (profile.key(row.setting), *(getattr(row, metric) for metric in METRICS))
        groups.setdefault(identity, []).append(row)
    copies = [row for rows in groups.values() for row in rows[1:]]
    if copies:
        what = f"{len(copies)} ok rows repeat another row exactly"
        yield Finding("warning", what, _where(copies), "remove the copies: true replicates differ")


def _knob_like_a_metric(profile: Profile) -> Iterator[Finding]:
    if len(profile.knob_names) < 2 or len(profile.settings) < 6:
        return
    for name, values in profile.knob_values.items():
        if len(values) == len(profile.settings) and not all(isinstance(value, int) for value in values):
            what = "the column counts as a knob, but has another value in every row"
            mend = f"remove or rename it if it was measured; the metric columns are {', '.join(METRICS)}"
            yield Finding("warning", what, f"column {name}", mend)


def _gaps(profile: Profile) -> Iterator[Finding]:
    if profile.missing_count:
        what = f"{profile.missing_count} of {profile.grid_size} settings of the full grid were not recorded"
        examples = [format_setting(setting) for setting in profile.missing_settings(_EXAMPLES)]
        mend = "a replay offers the recorded settings only; record the rest with `tune record`"
        yield Finding("note", what, _examples(examples, profile.missing_count), mend)


def _failed_rows(profile: Profile) -> Iterator[Finding]:
    for status, count in Counter(row.status for row in profile.rows if not row.ok).items():
        rows = [row for row in profile.rows if row.status is status]
        yield Finding("note", f"{count} rows are {status}", _where(rows), "a replay gives them back as failed bursts")


def _product(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


def _disagree(a: float | None, b: float | None) -> bool:
    return bool(a and b) and not math.isclose(a or 0.0, b or 0.0, rel_tol=_TOLERANCE)


def _where(rows: Sequence[ProfileRow]) -> str:
    names = [(f"line {row.line}: " if row.line else "") + format_setting(row.setting) for row in rows]
    return _examples(names)


def _examples(names: Sequence[str], count: int | None = None) -> str:
    more = (count or len(names)) - min(len(names), _EXAMPLES)
    return "; ".join(names[:_EXAMPLES]) + (f"; and {more} more" if more else "")
