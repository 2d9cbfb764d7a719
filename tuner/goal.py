"""What to optimize, and the cap it is optimized under."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from devices.errors import InputError
from devices.measurement import Estimate, Measurement, Statistic, known_sem


@dataclass(frozen=True)
class Cap:
    """The power limit in watts, on a stated statistic of power."""

    watts: float
    statistic: Statistic

    @property
    def metric(self) -> str:
        """Name of the metric the limit holds on."""
        return f"power_{self.statistic}_w"


@dataclass(frozen=True)
class Goal:
    """What a study optimizes.

    Attributes:
        name: As the user names it.
        metric: The metric's name in a measurement.
        maximize: Whether more is better.
        title: In words, for tables.
        needs_power: Whether it cannot be had without a meter.
    """

    name: str
    metric: str
    maximize: bool
    title: str
    needs_power: bool = False

    def estimate(self, measurement: Measurement) -> Estimate | None:
        """The goal's value in a measurement with its standard error, None where it was not measured."""
        value = getattr(measurement, self.metric)
        if value is None:
            return None
        relative = _relative_sem(measurement.throughput, measurement.throughput_sem)
        if self.needs_power:  # joules per sample = watts / throughput: relative errors add in quadrature
            relative = math.hypot(relative, _relative_sem(measurement.power_mean_w, measurement.power_mean_sem_w))
        return Estimate(value, relative * value)


def _relative_sem(value: float | None, sem: float | None) -> float:
    return known_sem(value, sem) / value if value else 0.0


GOALS: Mapping[str, Goal] = {
    goal.name: goal
    for goal in (
        Goal("throughput", "throughput", maximize=True, title="throughput"),
        Goal("energy", "energy_per_sample_j", maximize=False, title="energy per sample", needs_power=True),
    )
}


def find_goal(name: str) -> Goal:
    """The goal of that name.

    Raises:
        InputError: no such goal.
    """
    if name not in GOALS:
        raise InputError(f"unknown goal '{name}'", hint=f"--goal {' | '.join(GOALS)}")
    return GOALS[name]
