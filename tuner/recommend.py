"""Which setting to recommend, what has to be confirmed before that, and what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from devices.device import BATCH_KNOB, Setting
from tuner.evidence import Evidence, pool
from tuner.models.surrogate import Surrogate, power_readings
from tuner.problem import Problem
from tuner.trial import Trial

MIN_PROBABILITY = 0.95  # of power <= cap, for a setting to be recommended
_MAX_BURSTS = 4  # at one setting, to find out on which side of the cap it is
_WORTH_A_BURST = 0.005  # relative gain
_LIKELY = 0.7  # below, repeating a burst would more likely break the cap than settle anything


@dataclass(frozen=True)
class Verdict:
    """What the trials so far amount to.

    Attributes:
        best_measured: Best setting whose measured power is within the cap, confirmed or not.
        recommended: Best setting with P(power <= cap) >= 0.95 that is confirmed: measured twice, or exactly.
        feasible_probability: P(power <= cap) of the recommended setting.
        unconfirmed: The setting that another burst would make, or unmake, the recommended one; None when settled.
    """

    best_measured: Evidence | None = None
    recommended: Evidence | None = None
    feasible_probability: float | None = None
    unconfirmed: Setting | None = None


def judge(problem: Problem, trials: Sequence[Trial]) -> Verdict:
    """The verdict on a study's trials.

    Settings are ranked by the surrogate's mean, not by the luckiest burst; exact measurements rank by themselves. The
    best one that is certain to hold the cap is confirmed first; only then is a better one that may hold it measured
    again.
    """
    known = pool(problem, trials)
    within = [evidence for evidence in known.values() if evidence.within(problem.cap)]
    best_measured = best_within(problem, within)
    if best_measured is None:
        return Verdict()
    surrogate = Surrogate(problem, trials)
    settings = [e.setting for e in within]
    if all(e.exact for e in within):
        sign = 1.0 if problem.goal.maximize else -1.0
        merit = [sign * math.log(e.goal.value) for e in within]
    else:
        merit = list(surrogate.goal_log(settings)[0])
    probability = surrogate.feasible_probability(settings)
    order = sorted(range(len(within)), key=lambda i: -merit[i])

    certain = [i for i in order if probability[i] >= MIN_PROBABILITY]
    confirmed = [i for i in certain if within[i].exact or len(within[i].measurements) > 1]
    if not confirmed:
        open_ = certain or [i for i in order if _may_hold(within[i], probability[i])]
        return Verdict(best_measured, unconfirmed=within[open_[0]].setting if open_ else None)
    best = confirmed[0]
    better = order[: order.index(best)]
    open_ = [i for i in better if i in certain] or [
        i for i in better if _may_hold(within[i], probability[i]) and merit[i] - merit[best] > _WORTH_A_BURST
    ]
    return Verdict(
        best_measured,
        recommended=within[best],
        feasible_probability=float(probability[best]),
        unconfirmed=within[open_[0]].setting if open_ else None,
    )


def _may_hold(evidence: Evidence, probability: float) -> bool:
    """Whether more bursts may still show that a setting holds the cap."""
    return probability >= _LIKELY and len(evidence.measurements) < _MAX_BURSTS and not evidence.exact


def best_within(problem: Problem, evidence: Iterable[Evidence]) -> Evidence | None:
    """The best of the settings whose measured power is within the cap, None where there is none."""
    within = [e for e in evidence if e.within(problem.cap)]
    if problem.goal.maximize:
        return max(within, key=lambda e: e.goal.value, default=None)
    return min(within, key=lambda e: e.goal.value, default=None)


def is_hopeless(problem: Problem, trials: Sequence[Trial], *, min_bursts: int = 4) -> bool:
    """Whether nothing was within the cap and no setting is expected to be (P < 0.01 everywhere)."""
    if problem.cap is None:
        return False
    readings = power_readings(problem, trials)
    if len(readings) < min_bursts or any(power.value <= problem.cap.watts for _, power in readings):
        return False
    return bool((Surrogate(problem, trials).feasible_probability(problem.open_space(trials).settings) < 0.01).all())


def baseline_setting(problem: Problem, trials: Sequence[Trial], default: Setting | None) -> Setting | None:
    """What people use without a tuner: the device's default, or where that is above the cap, its batch size at the
    fastest clock that is likely within.

    None where no default is known, or nothing at its batch size is likely to hold the cap.
    """
    space = problem.open_space(trials)
    known = pool(problem, trials)
    if default is None or not known or not space.settings:
        return None
    settings = list(space.settings)
    if BATCH_KNOB in space.names:
        batch = min((s[BATCH_KNOB] for s in settings), key=lambda b: abs(b - default[BATCH_KNOB]))
        settings = [s for s in settings if s[BATCH_KNOB] == batch]
    ranks = {knob.name: {value: i for i, value in enumerate(knob.values)} for knob in space.knobs}

    def distance(setting: Setting) -> float:
        return sum(abs(ranks[n][setting[n]] - _nearest_rank(ranks[n], default.get(n))) for n in space.names)

    probability = Surrogate(problem, trials).feasible_probability(settings)

    def is_likely(setting: Setting, p: float) -> bool:
        evidence = known.get(space.key(setting))
        return evidence.within(problem.cap) if evidence is not None else p >= MIN_PROBABILITY

    likely = [setting for setting, p in zip(settings, probability, strict=True) if is_likely(setting, float(p))]
    return min(likely, key=distance, default=None)


def _nearest_rank(ranks: dict[float, int], value: float | None) -> int:
    if value is None:
        return len(ranks) - 1
    return ranks[min(ranks, key=lambda v: abs(v - value))]
