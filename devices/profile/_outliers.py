"""Cells of a table that do not fit their neighbours.

A throughput or power surface may change steeply along a knob, so a cell is compared with its neighbours' trend: the
value at its place on the line, in log value over log knob, through the cell before and the cell after it along each
knob. A cell is out of line if the trends along all knobs miss it in the same direction, and by much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from devices.device import Setting
from devices.profile._table import Profile

Key = tuple[float, ...]

# In the public tables tried, real surfaces leave the trend by a factor of up to 1.20 inside and 1.29 at an edge.
_INSIDE = math.log(1.25)
_EDGE = math.log(1.5)
_SPREADS = 8.0  # a table rough everywhere is given room: this many median deviations of its other cells
_CANDIDATES = 10
_MOST = 20


@dataclass(frozen=True)
class Outlier:
    """A cell out of line: its value and what the nearest trend of its neighbours expects."""

    setting: Setting
    value: float
    expected: float


@dataclass(frozen=True)
class _Deviation:
    """Of a cell from its neighbours' trends, in log value: the smallest, 0 where they disagree in direction."""

    amount: float
    limit: float


def find_outliers(profile: Profile, metric: str) -> list[Outlier]:
    """The cells whose median of the column `metric` over the ok replicates is out of line; at most 20."""
    logs: dict[Key, float] = {}
    for setting in profile.settings:
        values = [value for row in profile.replicates(setting) if row.ok and (value := getattr(row, metric))]
        if values:
            logs[profile.key(setting)] = math.log(median(values))
    places = [_places(profile.knob_values[name]) for name in profile.knob_names]
    found: list[Outlier] = []
    while len(found) < _MOST:
        deviations = _deviations(logs, places)
        excess = {key: abs(deviation.amount) / deviation.limit for key, deviation in deviations.items()}
        suspects = sorted((key for key in excess if excess[key] > 1), key=lambda key: -excess[key])[:_CANDIDATES]
        if not suspects:
            break
        # One wrong cell also spoils the trends of its neighbours: it is the one without which the rest fits best.
        rests = {key: _amounts_without(key, logs, places) for key in suspects}
        culprit = min(suspects, key=lambda key: sum(rests[key]))
        if abs(deviations[culprit].amount) <= _SPREADS * median(rests[culprit] or [0.0]):
            break
        expected = math.exp(logs[culprit] - deviations[culprit].amount)
        setting = dict(zip(profile.knob_names, culprit, strict=True))
        found.append(Outlier(setting, math.exp(logs.pop(culprit)), expected))
    return found


def _places(values: Sequence[float]) -> Mapping[float, float]:
    """Where the values of a knob lie on its axis."""
    return {value: math.log(value) if values[0] > 0 else value for value in values}


def _amounts_without(removed: Key, logs: Mapping[Key, float], places: Sequence[Mapping[float, float]]) -> list[float]:
    """The sizes of the deviations in the table without the cell `removed`."""
    rest = {key: value for key, value in logs.items() if key != removed}
    return [abs(deviation.amount) for deviation in _deviations(rest, places).values()]


def _deviations(logs: Mapping[Key, float], places: Sequence[Mapping[float, float]]) -> dict[Key, _Deviation]:
    """Of every cell that has neighbours enough along one knob or more."""
    amounts: dict[Key, list[float]] = {}
    inside: set[Key] = set()
    for axis, place in enumerate(places):
        lines: dict[Key, list[Key]] = {}
        for key in sorted(logs):
            lines.setdefault(key[:axis] + key[axis + 1 :], []).append(key)
        for line in lines.values():
            if len(line) < 3:
                continue
            points = [(place[key[axis]], logs[key]) for key in line]
            for index, key in enumerate(line):
                amounts.setdefault(key, []).append(_deviation(points, index))
            inside.update(line[1:-1])
    return {key: _Deviation(_common(values), _INSIDE if key in inside else _EDGE) for key, values in amounts.items()}


def _deviation(points: Sequence[tuple[float, float]], index: int) -> float:
    """Of the point `index` of a line of three points or more from the trend of its neighbours."""
    x, y = points[index]
    if 0 < index < len(points) - 1:
        return y - _through(points[index - 1], points[index + 1], x)
    near, far = (points[1], points[2]) if index == 0 else (points[-2], points[-3])
    # Beyond an edge the trend may bend: what agrees with the trend or with the neighbour itself is in line.
    return _common([y - _through(near, far, x), y - near[1]])


def _through(a: tuple[float, float], b: tuple[float, float], x: float) -> float:
    """The value at `x` of the line through `a` and `b`."""
    return a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0])


def _common(amounts: Sequence[float]) -> float:
    """The smallest of `amounts` where all have one sign, else 0."""
    same = all(amount > 0 for amount in amounts) or all(amount < 0 for amount in amounts)
    return min(amounts, key=abs) if same else 0.0
