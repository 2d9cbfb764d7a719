"""Which setting to recommend, what has to be confirmed before that, and what it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from devices.device import Setting
from tuner.evidence import Evidence, pool
from tuner.models.forms import Array
from tuner.models.search import most_worth
from tuner.models.surrogate import Surrogate, power_readings
from tuner.problem import Problem
from tuner.trial import Role, Trial

MIN_PROBABILITY = 0.95  # of power <= cap, for a setting to be recommended
SPEED_KNOBS = ("gpu_freq_mhz", "power_limit_w", "cpu_freq_mhz")  # what people lower first
_MIN_READINGS = 4
_MAX_BASELINES = 3
_FAR_ABOVE = 1.25
MAX_BURSTS = 5  # at one setting, to find out on which side of the cap it is
_WORTH_A_BURST = 0.004  # relative gain
_POSSIBLE = 0.05  # below, a burst is not worth the harm even where nothing is known to hold the cap
_LIKELY = 0.6  # below, repeating a burst would more likely break the cap than settle anything
_BASELINE_LIKELY = 0.7
_BASELINE_POSSIBLE = 0.3  # for the one burst at a baseline that nothing better is known of
_CERTAINTY = 0.3  # weight of the logarithm of P(power <= cap) when choosing what to repeat


@dataclass(frozen=True)
class Verdict:
    """What the trials so far amount to.

    Attributes:
        best_measured: Best setting whose measured power is within the cap, confirmed or not.
        recommended: Best setting with P(power <= cap) >= 0.95 that is confirmed: measured twice, or exactly.
        feasible_probability: P(power <= cap) of the recommended setting.
        unconfirmed: The setting that another burst may make, or unmake, the recommended one; None when settled.
    """

    best_measured: Evidence | None = None
    recommended: Evidence | None = None
    feasible_probability: float | None = None
    unconfirmed: Setting | None = None


def judge(problem: Problem, trials: Sequence[Trial], *, confirm: bool = True, repeat: bool = True) -> Verdict:
    """The verdict on a study's trials.

    Settings with one burst are ranked by the surrogate's mean, not by the luckiest burst; those with several, and exact
    ones, by their measured mean, which is what the user gets. A setting that is better than the recommended one, and
    may hold the cap, is measured again: noise alone must not decide.

    Args:
        problem: Space, goal and cap.
        trials: The trials so far.
        confirm: Whether one burst is too little to recommend a setting.
        repeat: Whether a setting that is not certain to hold the cap is measured again.
    """
    known = list(pool(problem, trials).values())
    best_measured = best_within(problem, known)
    if not known:
        return Verdict()
    surrogate = Surrogate(problem, trials)
    settings = [e.setting for e in known]
    several = np.array([e.exact or len(e.measurements) > 1 for e in known])
    merit = np.where(several, surrogate.measured_merit(settings), surrogate.goal_log(settings)[0])
    probability = surrogate.feasible_probability(settings)
    bursts = np.array([len(e.measurements) for e in known])
    exact = np.array([e.exact for e in known])
    held = np.array([e.within(problem.cap) for e in known])
    recommendable = held & (probability >= MIN_PROBABILITY) & (exact | (bursts > 1) | (not confirm))
    best = int(np.where(recommendable, merit, -np.inf).argmax()) if recommendable.any() else None

    open_ = ~recommendable & ~exact & (bursts < MAX_BURSTS) & held & (probability >= _LIKELY)
    if not repeat:
        open_ &= (probability >= MIN_PROBABILITY) & (bursts == 1)
    if best is not None:
        open_ &= merit - merit[best] > _WORTH_A_BURST
    unconfirmed = None
    if open_.any():
        order = np.where(open_, merit + _CERTAINTY * np.log(np.maximum(probability, 1e-12)), -np.inf)
        certain = np.where(probability >= MIN_PROBABILITY, order, -np.inf)
        if best is None and bursts[order.argmax()] > 1 and np.isfinite(certain).any():
            order = certain  # a second burst did not settle it: have something to recommend before the third
        unconfirmed = settings[int(order.argmax())]
    elif best is None:
        unconfirmed = _promising(problem, trials, surrogate, known)
    if best is None:
        return Verdict(best_measured, unconfirmed=unconfirmed)
    return Verdict(
        best_measured,
        recommended=known[best],
        feasible_probability=float(probability[best]),
        unconfirmed=unconfirmed,
    )


def _promising(
    problem: Problem, trials: Sequence[Trial], surrogate: Surrogate, known: Sequence[Evidence]
) -> Setting | None:
    """For when nothing can be recommended: the best setting, tried often or never, that may still hold the cap."""
    again = {problem.space.key(e.setting) for e in known if not e.exact and len(e.measurements) < MAX_BURSTS}
    settled = [trial.setting for trial in trials if problem.space.key(trial.setting) not in again]

    def worth(settings: Sequence[Setting]) -> Array:
        probability = surrogate.feasible_probability(settings)
        order = np.log(np.maximum(probability, 1e-12)) + surrogate.goal_log(settings)[0]
        return np.where(probability >= _POSSIBLE, order, -np.inf)

    return most_worth(problem.open_space(trials), worth, settled, (problem.seed, len(trials)))[0]


def best_within(problem: Problem, evidence: Iterable[Evidence]) -> Evidence | None:
    """The best of the settings whose measured power is within the cap, None where there is none."""
    within = [e for e in evidence if e.within(problem.cap)]
    if problem.goal.maximize:
        return max(within, key=lambda e: e.goal.value, default=None)
    return min(within, key=lambda e: e.goal.value, default=None)


def is_hopeless(problem: Problem, trials: Sequence[Trial]) -> bool:
    """Whether the cap is far below everything: several bursts, all of them far above it, and P < 0.01 everywhere.

    Nearer to the cap the model of a few bursts is not to be trusted with a no: the search goes on.
    """
    if problem.cap is None:
        return False
    readings = power_readings(problem, trials)
    if len(readings) < _MIN_READINGS or any(p.value <= _FAR_ABOVE * problem.cap.watts for _, p in readings):
        return False
    probability = Surrogate(problem, trials).feasible_probability
    _, highest = most_worth(problem.open_space(trials), probability, (), (problem.seed, len(trials)))
    return highest < 0.01


def comparison(problem: Problem, trials: Sequence[Trial], default: Setting | None) -> Setting | None:
    """The setting a recommended one is compared with: measured for that purpose, or else to be measured."""
    made = [trial for trial in trials if trial.role is Role.BASELINE]
    if len(made) < _MAX_BASELINES:
        return baseline_setting(problem, trials, default)
    within = [trial for trial in made if any(e.within(problem.cap) for e in pool(problem, [trial]).values())]
    return (within or made)[-1].setting


def baseline_setting(problem: Problem, trials: Sequence[Trial], default: Setting | None) -> Setting | None:
    """What people use without a tuner: the device's default; where that breaks the cap, at the highest clock that holds
    it.

    People find that clock by trying, so a clock that may hold is tried before a slower one that surely does: a gain
    over a needlessly slow setting would be none.

    None where no default is known or measurable, or its batch size is not likely to hold the cap at any clock.
    """
    space = problem.open_space(trials)
    known = pool(problem, trials)
    if default is None or not known or not len(space):
        return None
    nearest = {
        knob.name: min(knob.values, key=lambda v, name=knob.name: abs(v - default.get(name, v)))  # type: ignore[misc]
        for knob in space.knobs
    }
    speed = next((n for n in SPEED_KNOBS if n in space.names), None)
    line = list(space.part({n: (nearest[n],) for n in space.names if n != speed}).settings)
    if speed is not None:
        line = sorted((s for s in line if s[speed] <= nearest[speed]), key=lambda s: -s[speed])
    probability = Surrogate(problem, trials).feasible_probability(line)

    def chance(setting: Setting, p: float) -> float:
        evidence = known.get(space.key(setting))
        return p if evidence is None else float(evidence.within(problem.cap))

    chances = [chance(setting, float(p)) for setting, p in zip(line, probability, strict=True)]
    likely = next((i for i, p in enumerate(chances) if p >= _BASELINE_LIKELY), None)
    if likely is None:
        best = max(chances, default=0.0)
        return line[chances.index(best)] if best >= _BASELINE_POSSIBLE else None
    return line[likely - 1] if likely and chances[likely - 1] >= _POSSIBLE else line[likely]
