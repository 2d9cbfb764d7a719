"""`analytic`: fit the analytic model to a few bursts, take its optimum, measure it and its rivals; nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Estimate, Status
from tuner.models.analytic import AnalyticModel, Point
from tuner.models.forms import Form
from tuner.models.search import ENUMERATED, most_worth
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies.proposal import ProposingStrategy, excess, first_bursts
from tuner.trial import Role, Trial

_FITTED = {1: 4, 2: 5}  # bursts before the first fit, by the number of knobs with a choice; beyond, one more
_MOST_FITTED = 6
_FITS = 5  # settings that are measured after the design at most, with a fit to one more burst after each
_RIVAL = 0.1  # probability of being the best one that makes a setting worth a burst, the model's optimum being measured
_TOLD_BY_MANY = ("mix",)  # coefficients that a few bursts cannot tell: bursts at and around many limits do


class AnalyticStrategy(ProposingStrategy):
    """The yardstick "analytic model only": a design of a few bursts, the model's optimum, no exploration.

    The design begins at the safe start and spreads over the space, one setting after the other as far from those
    measured as can be. Then the model (`tuner.models.analytic`, power in the cap's statistic) is fitted to them, and
    its best setting under the cap is measured. What that burst finds may move the optimum, so this is done again. Where
    the optimum was measured and held the cap, its likeliest rival is: the setting that is best by most samples of the
    coefficients. Converges when no rival is likely, or the fifth setting after the design was measured.

    The extended form is fitted, with the softness of a power limit (`mix`) held where the form believes it to be. On
    eight Zeus tables (2 % and 1 % noise, caps 25/50/75 %, three seeds) 56 % of the studies end within 2 % of the
    certifiable optimum with `mix` free, 68 % with it held, 83 % where rivals are measured too.

    Args:
        plain: Whether to fit the published terms only.
    """

    name = "analytic"
    variants: ClassVar[Mapping[str, Mapping[str, bool]]] = {"plain": {"plain": True}}

    def __init__(self, *, plain: bool = False) -> None:
        self._plain = plain

    def finished(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        return self.propose(problem, trials) is None

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        # Replayed over the search's own bursts, the first at each setting: what confirms the choice must not unmake it.
        bursts = [t for t in first_bursts(problem, trials).values() if t.role is Role.SEARCH]
        made = [i for i, trial in enumerate(bursts) if _point(problem, trial) is not None]
        wanted = min(_FITTED.get(len(problem.space.free), _MOST_FITTED), len(problem.space))
        for fits, end in enumerate(made[wanted - 1 :]):
            if fits == _FITS or self._optimum(problem, bursts[: end + 1]) is None:
                return None
        if len(made) < wanted:
            return _farthest(problem, trials, bursts)
        best = self._optimum(problem, bursts)
        return best if best in problem.open_space(trials).untried(trial.setting for trial in trials) else None

    def _optimum(self, problem: Problem, bursts: Sequence[Trial]) -> Setting | None:
        """The untried setting that the model takes for the best one; where that one was measured, its likeliest untried
        rival, or None where none is likely."""
        space = problem.open_space(bursts)
        points = [point for trial in bursts if (point := _point(problem, trial)) is not None]
        model = AnalyticModel.fit(problem.space.knobs, points, fixed=self._held(problem.space), plain=self._plain)
        refuted = [t.setting for t in bursts if t.pending or (excess(problem, t) or 0) > 0 or not t.valid]
        cap_w = None if problem.cap is None else problem.cap.watts
        seed = (problem.seed, len(bursts))
        best, _ = most_worth(space, lambda s: model.merit(s, cap_w, problem.goal), refuted, seed)
        if best is None:  # by the model nothing holds the cap: what comes nearest, once
            failed = [t.setting for t in bursts if t.pending or not t.valid]
            best, _ = most_worth(space, lambda s: -model.log_values(s)[1], failed, seed)
        untried = space.untried(trial.setting for trial in bursts)
        if best is None or best in untried:
            return best
        candidates = space.untried(refuted)
        if len(candidates) > ENUMERATED:  # too many to tell how often each of them is the best one
            return None
        optimum = model.optimum(list(candidates), cap_w, problem.goal)
        rivals = () if optimum is None else optimum.runners_up
        return next((rival for rival, probability in rivals if probability >= _RIVAL and rival in untried), None)

    def _held(self, space: Space) -> dict[str, float]:
        """Coefficients that a few bursts cannot tell, where the form believes them to be."""
        form = Form(space.knobs, plain=self._plain)
        return {name: math.exp(form.mean[form.index[name]]) for name in _TOLD_BY_MANY if name in form.index}


def _point(problem: Problem, trial: Trial) -> Point | None:
    """What a burst found, where it found all that the fit needs."""
    found = trial.measurement
    if found is None or trial.status not in (Status.OK, Status.OVER_CAP) or not found.throughput:
        return None
    statistic = "mean" if problem.cap is None else problem.cap.statistic
    power: Estimate | None = None
    if problem.cap is not None or problem.goal.needs_power:
        power = found.power(statistic)
        if power is None:
            return None
    samples = trial.setting.get(BATCH_KNOB, 1.0)
    return Point(trial.setting, samples / found.throughput, None if power is None else power.value)


def _farthest(problem: Problem, trials: Sequence[Trial], bursts: Sequence[Trial]) -> Setting | None:
    """The untried setting farthest from all bursts, in ranks of the knobs' values; first of all the safe start."""
    space = problem.open_space(trials)
    untried = space.untried(trial.setting for trial in trials)
    if not untried:
        return None

    def ranks(settings: Sequence[Setting]) -> np.ndarray:
        return np.array([[k.values.index(s[k.name]) / (len(k.values) - 1) for k in space.free] for s in settings])

    tried = ranks([trial.setting for trial in bursts if trial.setting in space])
    if not len(tried):
        start = space.safe_start()
        return start if start in untried else untried[0]

    def distance(settings: Sequence[Setting]) -> np.ndarray:
        return np.asarray(np.linalg.norm(ranks(settings)[:, None] - tried[None], axis=2).min(axis=1))

    return most_worth(space, distance, [trial.setting for trial in trials], (problem.seed, len(trials)))[0]
