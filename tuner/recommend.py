"""Which setting to recommend, what has to be confirmed before that, and what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from devices.device import Setting
from tuner.evidence import Evidence, pool
from tuner.models.surrogate import Surrogate, power_readings
from tuner.problem import Problem
from tuner.trial import Role, Trial

MIN_PROBABILITY = 0.95  # of power <= cap, for a setting to be recommended
_SPEED_KNOBS = ("gpu_freq_mhz", "power_limit_w", "cpu_freq_mhz")  # what people lower first
_MIN_READINGS = 4
_MAX_BASELINES = 2
_FAR_ABOVE = 1.25
_MAX_BURSTS = 4  # at one setting, to find out on which side of the cap it is
_WORTH_A_BURST = 0.005  # relative gain
_POSSIBLE = 0.3  # for the one burst at a baseline that nothing better is known of
_LIKELY = 0.7  # below, repeating a burst would more likely break the cap than settle anything


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


def judge(problem: Problem, trials: Sequence[Trial]) -> Verdict:
    """The verdict on a study's trials.

    Settings with one burst are ranked by the surrogate's mean, not by the luckiest burst; those with several, and exact
    ones, by their measured mean, which is what the user gets. The best one that is certain to hold the cap is confirmed
    first; only then is a better one that may hold it measured again.
    """
    known = list(pool(problem, trials).values())
    best_measured = best_within(problem, known)
    if not known:
        return Verdict()
    surrogate = Surrogate(problem, trials)
    settings = [e.setting for e in known]
    sign = 1.0 if problem.goal.maximize else -1.0
    merit = [
        sign * math.log(e.goal.value) if e.exact or len(e.measurements) > 1 else mean
        for e, mean in zip(known, surrogate.goal_log(settings)[0], strict=True)
    ]
    probability = surrogate.feasible_probability(settings)
    order = sorted(range(len(known)), key=lambda i: -merit[i])

    certain = [i for i in order if probability[i] >= MIN_PROBABILITY and known[i].within(problem.cap)]
    confirmed = [i for i in certain if known[i].exact or len(known[i].measurements) > 1]
    if not confirmed:
        candidates = certain or [i for i in order if _may_hold(known[i], probability[i], 2 * _MAX_BURSTS)]
        setting = known[candidates[0]].setting if candidates else _promising(problem, trials, surrogate)
        return Verdict(best_measured, unconfirmed=setting)
    best = confirmed[0]
    better = order[: order.index(best)]
    worth_it = [i for i in better if merit[i] - merit[best] > _WORTH_A_BURST]
    candidates = [i for i in worth_it if i in certain] or [
        i for i in worth_it if _may_hold(known[i], probability[i], _MAX_BURSTS)
    ]
    return Verdict(
        best_measured,
        recommended=known[best],
        feasible_probability=float(probability[best]),
        unconfirmed=known[candidates[0]].setting if candidates else None,
    )


def _may_hold(evidence: Evidence, probability: float, most_bursts: int) -> bool:
    """Whether more bursts may still show that a setting holds the cap."""
    return probability >= _LIKELY and len(evidence.measurements) < most_bursts and not evidence.exact


def _promising(problem: Problem, trials: Sequence[Trial], surrogate: Surrogate) -> Setting | None:
    """The best setting nobody tried that is expected to hold the cap, for when none of the tried ones does."""
    space = problem.open_space(trials)
    tried = {space.key(trial.setting) for trial in trials}
    untried = [setting for setting in space.settings if space.key(setting) not in tried]
    if not untried:
        return None
    probability = surrogate.feasible_probability(untried)
    merit = surrogate.goal_log(untried)[0]
    likely = [i for i in range(len(untried)) if probability[i] >= MIN_PROBABILITY]
    likely = likely or [i for i in range(len(untried)) if probability[i] >= _LIKELY]
    return untried[max(likely, key=lambda i: merit[i])] if likely else None


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
    return bool((Surrogate(problem, trials).feasible_probability(problem.open_space(trials).settings) < 0.01).all())


def comparison(problem: Problem, trials: Sequence[Trial], default: Setting | None) -> Setting | None:
    """The setting a recommended one is compared with: measured for that purpose, or else to be measured."""
    made = [trial for trial in trials if trial.role is Role.BASELINE]
    within = [trial for trial in made if any(e.within(problem.cap) for e in pool(problem, [trial]).values())]
    if within or len(made) >= _MAX_BASELINES:
        return (within or made)[-1].setting
    return baseline_setting(problem, trials, default)


def baseline_setting(problem: Problem, trials: Sequence[Trial], default: Setting | None) -> Setting | None:
    """What people use without a tuner: the device's default; where that breaks the cap, with its clock lowered until it
    is likely to hold.

    None where no default is known or measurable, or its batch size is not likely to hold the cap at any clock.
    """
    space = problem.open_space(trials)
    known = pool(problem, trials)
    if default is None or not known or not space.settings:
        return None
    nearest = {
        knob.name: min(knob.values, key=lambda v, name=knob.name: abs(v - default.get(name, v)))  # type: ignore[misc]
        for knob in space.knobs
    }
    speed = next((n for n in _SPEED_KNOBS if n in space.names), None)
    line = [s for s in space.settings if all(s[n] == nearest[n] for n in space.names if n != speed)]
    if speed is not None:
        line = sorted((s for s in line if s[speed] <= nearest[speed]), key=lambda s: -s[speed])
    probability = Surrogate(problem, trials).feasible_probability(line)

    def chance(setting: Setting, p: float) -> float:
        evidence = known.get(space.key(setting))
        return p if evidence is None else float(evidence.within(problem.cap))

    chances = [chance(setting, float(p)) for setting, p in zip(line, probability, strict=True)]
    fastest = next((setting for setting, p in zip(line, chances, strict=True) if p >= _LIKELY), None)
    if fastest is None and max(chances, default=0.0) >= _POSSIBLE:
        return line[chances.index(max(chances))]
    return fastest
