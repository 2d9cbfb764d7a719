"""What can be wrong with a study before its first burst."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import TypeGuard

from devices.device import DeviceInfo, Knob
from devices.errors import InputError, UnsupportedError
from devices.measurement import STATISTICS, Statistic
from devices.profile import METRICS, Profile
from tuner.goal import Cap, Goal


def check_numbers(bursts: int, seed: int, cap_w: float | None, cap_on: str | None) -> None:
    """Check the numbers and names of a study.

    Raises:
        InputError: one that cannot be; the message says which.
    """
    if not is_count(bursts):
        raise InputError(f"a study needs one burst or more, not {bursts!r}", hint="--bursts 25")
    if seed != 0 and not is_count(seed):
        raise InputError(f"a seed is a whole number of 0 or more, not {seed!r}", hint="--seed 0")
    if cap_on is not None and cap_on not in STATISTICS:
        raise InputError(f"'{cap_on}' is no statistic of power", hint=f"--cap-on {' | '.join(STATISTICS)}")
    if cap_w is None and cap_on is not None:
        raise InputError("a statistic of power without a cap", hint="--cap 7W, or leave --cap-on out")
    if cap_w is not None and not (_is_number(cap_w) and math.isfinite(cap_w) and cap_w > 0):
        raise InputError(f"a cap is a number of watts greater than 0, not {cap_w!r}", hint="--cap 7W")


def is_count(value: object) -> bool:
    """Whether `value` is a whole number of 1 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


_NEEDS: dict[str, Callable[[float], bool]] = {
    "above 0": lambda number: number > 0,
    "of 0 or more": lambda number: number >= 0,
    "from 0 to 1": lambda number: 0 <= number <= 1,
    "that is finite": lambda number: True,
}


def check_number(value: object, what: str, need: str = "above 0") -> float:
    """`value` as a finite number that is as needed: one of `_NEEDS`.

    Raises:
        InputError: it is none.
    """
    try:
        number = float(value) if _is_number(value) else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    if math.isfinite(number) and _NEEDS[need](number):
        return number
    raise InputError(f"{what} is a number {need}, not {value!r}")


def check_prior(info: DeviceInfo, prior: Sequence[Profile]) -> tuple[Profile, ...]:
    """Records that a study can learn from.

    Raises:
        InputError: one that is none, lacks a knob of the device, or has fewer than two settings with a valid burst.
    """
    if not isinstance(prior, Sequence) or not all(isinstance(record, Profile) for record in prior):
        raise InputError(f"prior is a list of profiles, not {prior!r:.60}", hint="prior=[read_profile(Path('it.csv'))]")
    for record in prior:
        named = record.metadata.workload or record.metadata.device
        check_record(record, f"the prior record of {named}" if named else "the prior record", info.knobs)
    return tuple(prior)


def check_record(record: Profile, what: str, knobs: Iterable[Knob]) -> None:
    """Check that a study of `knobs` can learn from `record`, which messages call `what`.

    Raises:
        InputError: it lacks a knob, or has fewer than two settings with a valid burst.
    """
    missing = [knob.name for knob in knobs if knob.name not in record.knob_names]
    if missing:
        raise InputError(f"{what} lacks {', '.join(missing)}", hint="a record of the same knobs, or none")
    if len(record.cells()) < 2:
        raise InputError(f"{what} has fewer than two valid settings", hint="a longer record, or none")


def gives_away(record: Profile, table: Profile) -> bool:
    """Whether `record` holds every burst of `table`: a search of the table that learns from it knows the answer."""
    return not _content(table) - _content(record)


def _content(profile: Profile) -> Counter[str]:
    """What was recorded, whatever the order of rows and columns and the words around it."""
    return Counter(
        repr((sorted(row.setting.items()), row.status.value, [getattr(row, name) for name in METRICS]))
        for row in profile.rows
    )


def _require_power(info: DeviceInfo, what: str, hint: str) -> None:
    if info.statistics:
        return
    if info.source == "replayed":
        raise UnsupportedError(f"the profile does not record power_mean_w in every valid row, so {what}", hint=hint)
    raise info.without_meter(what, hint)


def check_name(name: str) -> str:
    """The name of a study.

    Raises:
        InputError: empty, too long, or with characters that no table can show.
    """
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise InputError(
            f"{name[:40]!r} is no name for a study", hint="--study NAME, of at most 200 printable characters"
        )
    return name


def check_cap(info: DeviceInfo, goal: Goal, cap_w: float | None, cap_on: Statistic | None) -> Cap | None:
    """The cap of a study on this device, on the statistic asked for or the device's own choice.

    Raises:
        UnsupportedError: a cap or a goal that needs a meter, or a statistic, that the device does not have.
    """
    if goal.needs_power:
        _require_power(info, f"the goal {goal.name} cannot be measured", "--goal throughput")
        if "mean" not in info.statistics:
            raise UnsupportedError(
                f"{info.name} does not give the mean power, so the goal {goal.name} cannot be measured",
                hint="--goal throughput",
            )
    if cap_w is None:
        return None
    _require_power(info, "no cap can be held", "leave --cap out")
    statistic = cap_on or info.default_statistic
    if statistic not in info.statistics:
        raise UnsupportedError(
            f"{info.name} does not give the {statistic} of power", hint=f"--cap-on {' | '.join(info.statistics)}"
        )
    return Cap(float(cap_w), statistic)
