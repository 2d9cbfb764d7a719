"""What the trials say about every setting: the analytic form, what it gets wrong, and the noise of bursts, apart."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from devices.device import BATCH_KNOB, Knob, Setting
from devices.measurement import Estimate, Status, known_sem
from tuner.evidence import Evidence, mean_estimate, pool
from tuner.goal import Cap
from tuner.models.coefficients import Belief
from tuner.models.forms import Array, Form
from tuner.models.process import AnalyticProcess
from tuner.models.threads import single_threaded
from tuner.models.transfer import learn, with_common
from tuner.problem import Problem
from tuner.space import Key
from tuner.trial import Trial

_MIN_RELATIVE_SEM = 1e-4  # an exact replay passes 0; a noise variance of 0 makes the covariance singular
_IMAGINED_SEM = 0.02
_MORE_LIKELY = 0.5
_TIME, _POWER = 0, 1

Reading = tuple[int, Key, float, float]
"""Output, setting, natural logarithm, variance."""


@functools.lru_cache(maxsize=16)  # the same trials are looked at several times between two bursts
def _process(
    knobs: tuple[Knob, ...], physics: bool, learned: tuple[Belief, ...], readings: tuple[Reading, ...], seed: int
) -> AnalyticProcess:
    form = Form(knobs, physics=physics)
    keys = list(dict.fromkeys(key for _, key, _, _ in readings))
    names = [knob.name for knob in knobs]
    with single_threaded():
        return AnalyticProcess(
            knobs,
            form,
            [dict(zip(names, key, strict=True)) for key in keys],
            output=[reading[0] for reading in readings],
            row=[keys.index(reading[1]) for reading in readings],
            value=[reading[2] for reading in readings],
            variance=[reading[3] for reading in readings],
            beliefs=with_common(form, learned, anything_read=bool(readings)),
            seed=seed,
        )


def power_readings(problem: Problem, trials: Sequence[Trial]) -> list[tuple[Setting, Estimate]]:
    """The cap's statistic at every setting: pooled over valid bursts, and the lower bounds of those the guard ended."""
    if problem.cap is None:
        return []
    readings = [(e.setting, e.power) for e in pool(problem, trials).values() if e.power is not None]
    for trial in trials:
        if trial.status is Status.OVER_CAP and trial.measurement is not None:
            bound = trial.measurement.power(problem.cap.statistic)
            if bound is not None and bound.value > problem.cap.watts:  # below another cap a lower bound says nothing
                readings.append((trial.setting, bound))
    return readings


@dataclass(frozen=True)
class Outlook:
    """An ensemble's view of n settings: s samples, each a normal distribution in the logarithm.

    Attributes:
        merit: Mean of the logarithm of the goal, larger is better, shape (s, n).
        merit_sd: Its standard deviation, shape (s, n).
        power: Mean of the logarithm of the cap's statistic in watts, shape (s, n).
        power_sd: Its standard deviation, shape (s, n).
    """

    merit: Array
    merit_sd: Array
    power: Array
    power_sd: Array

    def within(self, cap: Cap | None, share: float = 1.0) -> Array:
        """P(power <= share x cap) by sample, shape (s, n); 1 without a cap."""
        if cap is None:
            return np.ones_like(self.power)
        return np.asarray(norm.cdf((math.log(share * cap.watts) - self.power) / self.power_sd))

    def improvement(self, best: float) -> Array:
        """Expected improvement of the logarithm over `best` (Jones et al. 1998) by sample, shape (s, n)."""
        z = (self.merit - best) / self.merit_sd
        return np.asarray(self.merit_sd * (z * norm.cdf(z) + norm.pdf(z)))


class Surrogate:
    """What the trials say about settings nobody measured, and about measured ones with the noise taken out.

    Args:
        problem: Space, goal and cap.
        trials: With at least one burst that is valid, or that was ended for being above the cap, unless the problem has
            an earlier record to learn from.
        physics: Whether the form knows what clocks, limits and batch sizes do; else each knob acts by a power.

    Raises:
        ValueError: neither a burst nor a record.
    """

    def __init__(self, problem: Problem, trials: Sequence[Trial], *, physics: bool = True) -> None:
        self._problem = problem
        self.evidence: dict[Key, Evidence] = pool(problem, trials)
        self._physics = physics
        self._imagined: list[Setting] = []
        self._readings = tuple(self._read(trials))
        statistic = problem.cap.statistic if problem.cap else "mean"
        records = [(record, problem.sameness(record)) for record in problem.prior]
        self._learned = learn(records, problem.space.knobs, statistic, physics=physics)
        if not self._readings and not self._learned:
            raise ValueError("a surrogate needs at least one burst, or an earlier record")
        self.process = self._process(self._readings)

    def _process(self, readings: tuple[Reading, ...]) -> AnalyticProcess:
        return _process(self._problem.space.knobs, self._physics, self._learned, readings, self._problem.seed)

    def _read(self, trials: Sequence[Trial]) -> list[Reading]:
        space, readings = self._problem.space, []

        def add(output: int, setting: Setting, estimate: Estimate, factor: float = 1.0) -> None:
            sem = max(estimate.sem / estimate.value, _MIN_RELATIVE_SEM)
            value = math.log(estimate.value)
            readings.append((output, space.key(setting), math.log(factor) + (value if output else -value), sem**2))

        for e in self.evidence.values():
            speeds = [
                Estimate(m.throughput, known_sem(m.throughput, m.throughput_sem))
                for m in e.measurements
                if m.throughput
            ]
            if speeds:
                add(_TIME, e.setting, mean_estimate(speeds), self._samples(e.setting))
            watts = [p for m in e.measurements if (p := m.power("mean")) is not None]
            if self._problem.cap is None and self._problem.goal.needs_power and watts:
                add(_POWER, e.setting, mean_estimate(watts))
        for setting, power in power_readings(self._problem, trials):
            add(_POWER, setting, power)
        return readings

    def _mean_over_statistic(self, settings: Sequence[Setting]) -> Array:
        """The logarithm of mean power over the cap's statistic at n settings: as measured there, else as usual."""
        if self._problem.cap is None:
            return np.zeros(len(settings))
        found = {}
        for key, e in self.evidence.items():
            watts = [p.value for m in e.measurements if (p := m.power("mean")) is not None]
            if watts and e.power is not None:
                found[key] = math.log(sum(watts) / len(watts) / e.power.value)
        usual = sum(found.values()) / len(found) if found else 0.0
        return np.array([found.get(self._problem.space.key(setting), usual) for setting in settings])

    def _samples(self, setting: Setting) -> float:
        """Samples a step, in the unit in which the form's step time is: 1 where the batch size is no knob."""
        return float(setting.get(BATCH_KNOB, 1.0))

    @property
    def exact(self) -> bool:
        """Whether no measurement carries an error."""
        return bool(self.evidence) and all(e.exact for e in self.evidence.values())

    def imagine(self, settings: Sequence[Setting]) -> Surrogate:
        """The surrogate as it would be if bursts at `settings` found what it expects: for those still running."""
        mean = self.process.predict(settings)[0].mean(0)
        extra = [
            (output, self._problem.space.key(setting), float(mean[output, i]), _IMAGINED_SEM**2)
            for i, setting in enumerate(settings)
            for output in sorted({reading[0] for reading in self._readings})
        ]
        other = copy.copy(self)
        other._readings = self._readings + tuple(extra)
        other._imagined = [*self._imagined, *settings]
        other.process = self._process(other._readings)
        return other

    def measured_merit(self, settings: Sequence[Setting]) -> Array:
        """The logarithm of the goal as measured at settings with a valid burst, larger is better; shape (n,)."""
        goals = [self.evidence[self._problem.space.key(setting)].goal.value for setting in settings]
        return np.log(goals) if self._problem.goal.maximize else -np.log(goals)

    def best_held(self) -> float | None:
        """The logarithm of the best merit among measured (and imagined) settings that hold the cap, by reading and more
        likely than not; None where none does."""
        held = [e.setting for e in self.evidence.values() if e.within(self._problem.cap)]
        held += self._imagined
        held = [s for s, p in zip(held, self.feasible_probability(held), strict=True) if p >= _MORE_LIKELY]
        return float(self.goal_log(held)[0].max()) if held else None

    def step_time(self, settings: Sequence[Setting]) -> Array:
        """Expected time of a step at each setting, shape (n,), in a unit of its own."""
        return np.asarray(np.exp(self.process.predict(settings)[0][:, _TIME].mean(0)))

    def outlook(self, settings: Sequence[Setting]) -> Outlook:
        """The view of `settings`, in their order."""
        with single_threaded():
            mean, sd = self.process.predict(settings)
        merit = np.log([self._samples(s) for s in settings]) - mean[:, _TIME]
        merit_sd = sd[:, _TIME]
        if self._problem.goal.needs_power:  # joules per sample
            merit = merit - mean[:, _POWER] - self._mean_over_statistic(settings)
            merit_sd = np.hypot(merit_sd, sd[:, _POWER])
        return Outlook(merit, merit_sd, mean[:, _POWER], sd[:, _POWER])

    def feasible_probability(self, settings: Sequence[Setting]) -> Array:
        """P(power <= cap) at each setting, shape (n,); 1 without a cap, 0 or 1 where the power is known exactly."""
        cap = self._problem.cap
        if cap is None or not settings:
            return np.ones(len(settings))
        return self.certain(settings, self.outlook(settings).within(cap).mean(0))

    def certain(self, settings: Sequence[Setting], probability: Array) -> Array:
        """`probability` of holding the cap, with 0 or 1 where the power is known exactly."""
        found, cap = probability.copy(), self._problem.cap
        for i, setting in enumerate(settings):
            evidence = self.evidence.get(self._problem.space.key(setting))
            if evidence is not None and evidence.power is not None and evidence.power.sem == 0:
                found[i] = float(evidence.within(cap))
        return found

    def power_log(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of the cap's statistic in watts; both of shape (n,)."""
        outlook = self.outlook(settings)
        return _moments(outlook.power, outlook.power_sd)

    def goal_log(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of the goal, larger is better; both of shape (n,)."""
        outlook = self.outlook(settings)
        return _moments(outlook.merit, outlook.merit_sd)

    def expected_gain(self, settings: Sequence[Setting]) -> Array:
        """Expected relative improvement over the best feasible measurement, times P(power <= cap); shape (n,).

        Infinite for every setting while nothing feasible was measured.
        """
        feasible = [e.setting for e in self.evidence.values() if e.within(self._problem.cap)]
        if not feasible:
            return np.full(len(settings), np.inf)
        outlook = self.outlook(settings)
        gain = outlook.improvement(float(self.goal_log(feasible)[0].max()))
        return np.asarray((gain * outlook.within(self._problem.cap)).mean(0))


def _moments(mean: Array, sd: Array) -> tuple[Array, Array]:
    return mean.mean(0), np.sqrt((sd**2).mean(0) + mean.var(0))
