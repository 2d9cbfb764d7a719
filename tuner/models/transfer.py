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
from tuner.models.coefficients import Belief, Readings, draw, weigh
from tuner.models.forms import Array, Form
from tuner.models.residual import correlation, nearness

_COMMON = 0.35  # weight of what boards have in common, beside all that is said of this one
# How far coefficients move, as shares of their priors' widths, and powers, as a factor: to another workload, and
# between two records of the same.
_LIKE, _SAME = (0.4, 0.25), (0.1, 0.05)
_HARDLY_LOADED = 0.1  # share of such workloads
_RESIDUAL = 0.3  # of the same, after what the record's own readings leave over
_MOST_ROWS = 60
_SAMPLES = 4
_ROUGHNESS = np.array([0.02, 0.02])


def common(form: Form) -> list[Belief]:
    """What boards have in common: work draws power; but some workloads hardly load the accelerator, at any setting."""
    usual = Belief.independent(form.mean, form.sd, math.log(1 - _HARDLY_LOADED))
    return [usual, Belief.independent(*form.hardly_loaded, math.log(_HARDLY_LOADED))] if form.physics else [usual]


def with_common(form: Form, learned: Sequence[Belief], *, anything_read: bool) -> list[Belief]:
    """The priors of a study's coefficients: what boards have in common, then what was learned from earlier records.

    None of them is believed: each has a weight that readings raise or lower, so that a record of something else is soon
    forgotten. Before anything is read, what was learned says more.
    """
    if not learned:
        return common(form)
    beliefs = [replace(b, log_weight=b.log_weight + math.log(1 - _COMMON)) for b in learned]
    if anything_read:
        beliefs = [*(replace(b, log_weight=b.log_weight + math.log(_COMMON)) for b in common(form)), *beliefs]
    return beliefs


def learn(
    records: Sequence[tuple[Profile, float]], knobs: tuple[Knob, ...], statistic: Statistic, *, physics: bool = True
) -> tuple[Belief, ...]:
    """Priors from earlier records, each with the probability that it is of the same device and workload.

    Of those that have these knobs and at least two valid rows, in the units of their form: of each the coefficients
    alone, and with what they leave over, in case it is the same.
    """
    fitted = [(_fitted(_ById(record), knobs, physics, statistic), same) for record, same in records]
    fitted = [(beliefs, same) for beliefs, same in fitted if beliefs]
    return tuple(
        replace(belief, log_weight=math.log(weight / len(beliefs) / len(fitted)))
        for (like, of_same), same in fitted
        for beliefs, weight in ((like, 1 - same), (of_same, same))
        for belief in beliefs
    )


class _ById:
    """A profile as the key of a cache: equal when it is the same object."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.profile is other.profile

    def __hash__(self) -> int:
        return id(self.profile)


@functools.lru_cache(maxsize=32)
def _fitted(
    record: _ById, knobs: tuple[Knob, ...], physics: bool, statistic: Statistic
) -> tuple[tuple[Belief, ...], ...]:
    """The beliefs if it is like the record, and if it is the same; several each, since what a record leaves open may
    be far from normal."""
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
    alike, near = correlation(knobs, settings, settings), nearness(knobs, settings, settings)
    prior = [Belief.independent(form.mean, form.sd)]
    found = weigh(form, readings, alike, near, _ROUGHNESS, prior)
    samples, of = draw(form, readings, found, prior, _SAMPLES, seed=0)
    left = readings.value - readings.predict(form, samples)
    weights = np.linalg.solve(found.covariance[of], left[..., None])[..., 0]
    scale = form.index["time"]  # of another workload, in another unit
    samples[:, scale] = form.mean[scale]

    def moved(share: float, watts: float) -> Array:
        sd = share * form.sd
        sd[form.index["power"]], sd[scale] = watts, form.sd[scale]
        return np.diag(sd**2)

    def left_over(sample: int, wanted: Sequence[Setting]) -> Array:
        """The record's own residual: of the same workload it will be the same."""
        alike, near = correlation(knobs, wanted, settings), nearness(knobs, wanted, settings)
        size = found.size[of[sample]]
        cross = [size[j] ** 2 * alike + _ROUGHNESS[j] ** 2 * near for j in (0, 1)]
        return np.stack([cross[j][:, readings.row] * (readings.output == j) @ weights[sample] for j in (0, 1)])

    like = [Belief(theta, moved(*_LIKE)) for theta in samples]
    same = [
        Belief(theta, moved(*_SAME), offset=functools.partial(left_over, i), residual=_RESIDUAL)
        for i, theta in enumerate(samples)
    ]
    return tuple(like), tuple(same)
