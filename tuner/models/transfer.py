"""What earlier records say before the first burst: priors of the coefficients, fitted to profiles and studies."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devices.device import BATCH_KNOB, Knob, Setting
from devices.measurement import Statistic
from devices.profile import Profile
from tuner.models.coefficients import Belief, Readings, weigh
from tuner.models.forms import Array, Form
from tuner.models.residual import correlation

_COMMON = 0.35  # weight of what boards have in common, beside all that is said of this one
# How far coefficients move, as shares of their priors' widths, and powers, as a factor: to another workload, and
# between two records of the same.
_LIKE, _SAME = (0.4, 0.25), (0.2, 0.1)
_HARDLY_LOADED = 0.1  # share of such workloads
_MOST_ROWS = 60
_ROUGHNESS = np.array([0.02, 0.02])


def common(form: Form) -> list[Belief]:
    """What boards have in common: work draws power; but some workloads hardly load the accelerator, at any setting."""
    usual = Belief(form.mean, form.sd, math.log(1 - _HARDLY_LOADED))
    return [usual, Belief(*form.hardly_loaded, math.log(_HARDLY_LOADED))] if form.physics else [usual]


def with_common(form: Form, learned: Sequence[Belief], *, anything_read: bool) -> list[Belief]:
    """The priors of a study's coefficients: what boards have in common, then what was learned from earlier records.

    None of them is believed: each has a weight that readings raise or lower, so that a record of something else is soon
    forgotten. Before anything is read, what was learned says more.
    """
    if not learned:
        return common(form)
    share = math.log((1 - _COMMON) / len(learned))
    usual = [replace(b, log_weight=b.log_weight + math.log(_COMMON)) for b in common(form)] if anything_read else []
    return [*usual, *(replace(belief, log_weight=share) for belief in learned)]


def learn(
    records: Sequence[Profile], knobs: tuple[Knob, ...], statistic: Statistic, *, physics: bool = True
) -> tuple[Belief, ...]:
    """Priors from earlier records that have these knobs and at least two valid rows, in the units of their form: of
    each the coefficients alone, and with what they leave over, in case it is the same workload."""
    return tuple(belief for record in records for belief in _fitted(_ById(record), knobs, physics, statistic))


class _ById:
    """A profile as the key of a cache: equal when it is the same object."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.profile is other.profile

    def __hash__(self) -> int:
        return id(self.profile)


@functools.lru_cache(maxsize=32)
def _fitted(record: _ById, knobs: tuple[Knob, ...], physics: bool, statistic: Statistic) -> tuple[Belief, ...]:
    form = Form(knobs, physics=physics)
    names = {knob.name for knob in knobs}
    cells = [cell for cell in record.profile.cells(statistic) if names <= set(cell.setting) and cell.throughput > 0]
    cells = cells[:: max(math.ceil(len(cells) / _MOST_ROWS), 1)]
    if len(cells) < 2:
        return ()
    settings = [cell.setting for cell in cells]
    powers = [(i, cell.power_w) for i, cell in enumerate(cells) if cell.power_w]
    time = [math.log(float(cell.setting.get(BATCH_KNOB, 1.0)) / cell.throughput) for cell in cells]
    readings = Readings(
        form.columns(settings),
        row=np.array([*range(len(cells)), *(i for i, _ in powers)]),
        output=np.array([0] * len(cells) + [1] * len(powers)),
        value=np.array([*time, *(math.log(power) for _, power in powers)]),
        variance=np.full(len(cells) + len(powers), 1e-6),
    )
    found = weigh(form, readings, correlation(knobs, settings, settings), _ROUGHNESS, [Belief(form.mean, form.sd)])
    best = int(found.weight.argmax())
    mean, fitted = found.theta[best].copy(), np.diag(np.linalg.inv(found.curvature[best]))
    left = readings.value - readings.predict(form, mean)
    weights = np.linalg.solve(found.covariance[best], left)
    scale = form.index["time"]  # of another workload, in another unit
    mean[scale] = form.mean[scale]

    def spread(share: float, watts: float) -> Array:
        sd = np.minimum(np.sqrt(fitted + (share * form.sd) ** 2), form.sd)
        sd[form.index["power"]] = math.hypot(math.sqrt(fitted[form.index["power"]]), watts)
        sd[scale] = form.sd[scale]
        return np.asarray(np.minimum(sd, form.sd))

    size = found.size[best]

    def offset(wanted: Sequence[Setting]) -> Array:
        """The record's own residual: of the same workload it will be the same."""
        alike = correlation(knobs, wanted, settings)
        return np.stack([size[j] ** 2 * alike[:, readings.row] * (readings.output == j) @ weights for j in (0, 1)])

    return Belief(mean, spread(*_LIKE)), Belief(mean, spread(*_SAME), offset=offset)
