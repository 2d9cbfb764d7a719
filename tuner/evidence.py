"""What the bursts at each setting say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from devices.device import Setting
from devices.measurement import Estimate, Measurement
from tuner.goal import Cap
from tuner.problem import Problem
from tuner.space import Key
from tuner.trial import Trial


@dataclass(frozen=True)
class Evidence:
    """All valid bursts at one setting, pooled.

    Attributes:
        setting: The setting.
        measurements: The valid bursts, in the order made; never empty.
        goal: Mean of the goal's value over the bursts.
        power: Mean of the cap's statistic in watts; None without a cap.
    """

    setting: Setting
    measurements: tuple[Measurement, ...]
    goal: Estimate
    power: Estimate | None

    @property
    def exact(self) -> bool:
        """Whether another burst could teach nothing: the values carry no standard error."""
        return self.goal.sem == 0 and (self.power is None or self.power.sem == 0)

    def within(self, cap: Cap | None) -> bool:
        """Whether the measured power is at or below the cap."""
        return cap is None or (self.power is not None and self.power.value <= cap.watts)


def mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of independent estimates with its standard error."""
    n = len(estimates)
    return Estimate(sum(e.value for e in estimates) / n, math.sqrt(sum(e.sem**2 for e in estimates)) / n)


def pool(problem: Problem, trials: Sequence[Trial]) -> dict[Key, Evidence]:
    """The evidence at every setting with a valid burst, in the order of first measurement."""
    bursts: dict[Key, list[Measurement]] = {}
    for trial in trials:
        measurement = trial.valid
        if measurement is None or problem.goal.estimate(measurement) is None:
            continue
        if problem.cap is not None and measurement.power(problem.cap.statistic) is None:
            continue
        bursts.setdefault(problem.space.key(trial.setting), []).append(measurement)
    evidence = {}
    for key, measurements in bursts.items():
        goals = [e for m in measurements if (e := problem.goal.estimate(m)) is not None]
        powers = [e for m in measurements if problem.cap and (e := m.power(problem.cap.statistic)) is not None]
        evidence[key] = Evidence(
            setting=problem.space.setting(key),
            measurements=tuple(measurements),
            goal=mean_estimate(goals),
            power=mean_estimate(powers) if powers else None,
        )
    return evidence
