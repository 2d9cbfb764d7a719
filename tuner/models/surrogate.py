"""Gaussian processes on the logarithms of the goal and of power, over the exactly enumerated space."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from devices.device import Setting
from devices.measurement import Estimate, Status
from tuner.evidence import Evidence, pool
from tuner.models.threads import single_threaded
from tuner.problem import Problem
from tuner.space import Key
from tuner.trial import Trial

Array = npt.NDArray[np.float64]

_MIN_RELATIVE_SEM = 1e-4  # an exact replay passes 0; a noise variance of 0 makes the covariance singular
_VAGUE_SD = 1.0  # of a logarithm nobody has measured twice: a factor of e either way


Rows = tuple[tuple[float, ...], ...]


@functools.lru_cache(maxsize=16)  # the same trials are looked at several times between two bursts
def _fit_gp(x: Rows, log_value: tuple[float, ...], relative_sem: tuple[float, ...]) -> Any:
    # Imported here: the rest of the package must not wait seconds for torch.
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    with warnings.catch_warnings(), torch.random.fork_rng(), single_threaded():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = SingleTaskGP(
            torch.tensor(x, dtype=torch.double),
            torch.tensor(log_value, dtype=torch.double).unsqueeze(-1),
            torch.tensor(relative_sem, dtype=torch.double).unsqueeze(-1).square(),
            outcome_transform=Standardize(m=1),
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


class _LogProcess:
    """A GP on the logarithm of a positive quantity; inputs from `Space.features`, noise known from the bursts."""

    def __init__(self, x: Array, estimates: Sequence[Estimate]) -> None:
        log_value = tuple(math.log(estimate.value) for estimate in estimates)
        relative_sem = tuple(max(e.sem / e.value, _MIN_RELATIVE_SEM) for e in estimates)
        self._x, self._value, self._sem = x, np.array(log_value), np.array(relative_sem)
        self._model = None
        if len({tuple(row) for row in x.tolist()}) > 1:
            self._model = _fit_gp(tuple(map(tuple, x.tolist())), log_value, relative_sem)

    def posterior(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm at `x`, shape (n, d); both of shape (n,)."""
        if self._model is None:  # one place is known, and nothing of how things change from there
            known = (x == self._x[0]).all(axis=1)
            weight = 1 / self._sem**2
            mean, sem = float((weight * self._value).sum() / weight.sum()), float(weight.sum() ** -0.5)
            return np.full(len(x), mean), np.where(known, sem, _VAGUE_SD)
        import torch

        with torch.no_grad(), warnings.catch_warnings(), single_threaded():
            warnings.simplefilter("ignore")
            posterior = self._model.posterior(torch.tensor(x, dtype=torch.double))
            mean = posterior.mean.squeeze(-1).numpy()
            return mean, posterior.variance.clamp_min(1e-16).sqrt().squeeze(-1).numpy()


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


class Surrogate:
    """What the trials say about settings nobody measured, and about measured ones with the noise taken out.

    Args:
        problem: Space, goal and cap.
        trials: With at least one burst that is valid, or that was ended for being above the cap.

    Raises:
        ValueError: no such burst.
    """

    def __init__(self, problem: Problem, trials: Sequence[Trial]) -> None:
        self._problem = problem
        self.evidence: dict[Key, Evidence] = pool(problem, trials)
        self._goal = self._process([(e.setting, e.goal) for e in self.evidence.values()])
        self._power = self._process(power_readings(problem, trials)) if problem.cap is not None else None
        if self._goal is None and self._power is None:
            raise ValueError("a surrogate needs at least one burst")

    def _process(self, readings: Sequence[tuple[Setting, Estimate]]) -> _LogProcess | None:
        if not readings:
            return None
        x = self._problem.space.features([setting for setting, _ in readings])
        return _LogProcess(x, [estimate for _, estimate in readings])

    def feasible_probability(self, settings: Sequence[Setting]) -> Array:
        """P(power <= cap) at each setting, shape (n,); 1 without a cap, 0 or 1 where the power is known exactly."""
        cap = self._problem.cap
        if cap is None or self._power is None or not settings:
            return np.ones(len(settings))
        mean, sd = self.power_log(settings)
        probability = np.asarray(norm.cdf((math.log(cap.watts) - mean) / sd), dtype=float)
        for i, setting in enumerate(settings):
            evidence = self.evidence.get(self._problem.space.key(setting))
            if evidence is not None and evidence.power is not None and evidence.power.sem == 0:
                probability[i] = float(evidence.within(cap))
        return probability

    def power_log(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of the cap's statistic in watts; both of shape (n,).

        Raises:
            ValueError: no cap, or no power was read.
        """
        if self._power is None:
            raise ValueError("there is no power to model")
        return self._power.posterior(self._problem.space.features(settings))

    def goal_log(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of the goal, larger is better; both of shape (n,).

        Raises:
            ValueError: no valid burst.
        """
        if self._goal is None:
            raise ValueError("the goal was measured nowhere")
        mean, sd = self._goal.posterior(self._problem.space.features(settings))
        return (mean if self._problem.goal.maximize else -mean), sd

    def expected_gain(self, settings: Sequence[Setting]) -> Array:
        """Expected relative improvement over the best feasible measurement, times P(power <= cap); shape (n,).

        The closed form of expected improvement (Jones et al. 1998) on the logarithm, weighted by feasibility
        (Gardner et al. 2014). Infinite for every setting while nothing feasible was measured.
        """
        feasible = [e for e in self.evidence.values() if e.within(self._problem.cap)]
        if not feasible:
            return np.full(len(settings), np.inf)
        best = float(self.goal_log([e.setting for e in feasible])[0].max())
        mean, sd = self.goal_log(settings)
        z = (mean - best) / sd
        improvement = sd * (z * norm.cdf(z) + norm.pdf(z))
        return np.asarray(improvement * self.feasible_probability(settings), dtype=float)
