"""`cap-aware`, the default: what a burst is worth at every setting, by an analytic model with a process on top."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Status
from tuner.models.forms import LIMIT, RISING, Array
from tuner.models.search import most_worth
from tuner.models.surrogate import Surrogate
from tuner.problem import Problem
from tuner.recommend import MAX_BURSTS
from tuner.strategies.proposal import ProposingStrategy, excess
from tuner.trial import Trial

_MARGIN = 0.995  # of the cap: a setting nearer to it can hardly be confirmed
_START_CLOCK, _START_BATCH = 0.3, 0.64  # of the lists
_LIKELY_FIRST = 0.7
_ENOUGH_BROKEN, _HOPELESS = 3, 0.01  # bursts above the cap, and P(power <= cap) everywhere, to say that none holds it
_CLOCK_FAILED = (Status.THROTTLED, Status.CLOCK_NOT_APPLIED)
_SURELY = 0.01  # above the cap: more than noise
_HELD_BY_BATCH = 0.3  # of the list of batch sizes
_FEASIBILITY_FIRST = 1.4  # weight of the logarithm of P(power <= cap) while nothing holds the cap


@dataclass(frozen=True)
class Caution:
    """How gains are weighed against breaking the cap; all in relative gain of the goal.

    Attributes:
        any_harm: Price of a burst above the cap, or out of memory.
        far_harm: Price of one more than 5 % above, on top.
        rise: By which share of themselves the prices rise with every burst that broke the cap.
        likely: Least P(power <= cap) of a setting worth the price.
        clip: The most an improvement counts: a tenfold gain at 2 % is not worth the harm.
        gain: What a burst must promise, less harm.
        slope: By how much that rises with every burst made.
        bold_likely: The same as `likely`, where nothing likely is left but a lot may be won ...
        bold_gain: ... namely this much.
        bold_clip: As `clip`, then.
    """

    any_harm: float = 0.012
    far_harm: float = 0.04
    rise: float = 0.5
    likely: float = 0.3
    clip: float = 0.2
    gain: float = 0.0003
    slope: float = 0.0001
    bold_likely: float = 0.03
    bold_gain: float = 0.01
    bold_clip: float = 1.5


_ON_A_BOARD = Caution()
_OF_A_RECORD = Caution(any_harm=0.0, far_harm=0.0, likely=0.01, gain=0.001, slope=0.0)


class CapAwareStrategy(ProposingStrategy):
    """Constrained expected improvement less the expected harm, over every setting that is left.

    The first burst is at a low clock, or at the highest limit that is not above the cap. Then the surrogate (see
    `tuner.models.process`) says for every setting what it may gain over the best one that held the cap, how likely it
    holds the cap itself, and how likely it breaks it by a little and by far. Settings likely to break it are left out,
    so the measured ground grows outwards from the start; where nothing is left inside and a lot may be won outside, the
    least unlikely one is tried. Converges when no burst promises more than its threshold; the study then confirms.

    Args:
        caution: How gains are weighed against breaking the cap.
        physics: Whether the model knows what clocks, limits and batch sizes do.
        mask: Whether the cap keeps settings from being tried.
        stops: Whether it converges by itself before every setting was tried.
        repeats: Whether the study repeats what noise keeps on the edge of the cap.
        confirms: Whether the study confirms what it recommends.
    """

    name = "cap-aware"
    variants: ClassVar[Mapping[str, Mapping[str, bool]]] = {
        "no-prior": {"physics": False},
        "no-mask": {"mask": False},
        "no-stopping": {"stops": False},
        "no-repetition": {"repeats": False},
        "no-confirmation": {"confirms": False},
    }

    def __init__(
        self,
        caution: Caution | None = None,
        *,
        physics: bool = True,
        mask: bool = True,
        stops: bool = True,
        repeats: bool = True,
        confirms: bool = True,
    ) -> None:
        self._caution = caution or _ON_A_BOARD
        self.repeats, self.confirms = repeats, confirms
        self._physics, self._mask, self._stops = physics, mask, stops

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        space = problem.open_space(trials)
        tried = [trial.setting for trial in trials]
        untried = space.untried(tried)
        if not untried:
            return None
        told = [trial for trial in trials if not trial.pending]
        try:
            surrogate = Surrogate(problem, told, physics=self._physics)
        except ValueError:  # nothing is known yet
            return self._start(problem, untried, len(trials))
        pending = [trial.setting for trial in trials if trial.pending]
        if pending:
            surrogate = surrogate.imagine(pending)
        worth = functools.partial(self._worth, problem, trials, surrogate)
        return most_worth(space, worth, tried, (problem.seed, len(trials)))[0]

    def _worth(
        self, problem: Problem, trials: Sequence[Trial], surrogate: Surrogate, untried: Sequence[Setting]
    ) -> Array:
        """What a burst at each untried setting is worth, shape (n,); minus infinity where it is not worth its time."""
        caution = self._weights(surrogate)
        chances = _Chances(problem, trials, surrogate, untried, caution, mask=self._mask)
        if not surrogate.evidence and not any(trial.measurement for trial in trials):
            return _first(chances)
        best = surrogate.best_held()
        if best is None:
            return self._hope(problem, trials, surrogate, chances)
        gain = chances.outlook.improvement(best)
        searching = not self._stops or any(trial.pending for trial in trials)  # a second board need not idle
        threshold = -np.inf if searching else caution.gain + caution.slope * len(trials)
        cost = _relative_cost(trials, surrogate, untried)
        worth = (np.minimum(gain, caution.clip) * chances.holds).mean(0) * chances.fits - chances.harm
        worth_it = chances.likely(caution.likely) & (worth > threshold)
        if worth_it.any():
            return np.where(worth_it, worth / cost, -np.inf)
        worth = (np.minimum(gain, caution.bold_clip) * chances.holds).mean(0) * chances.fits
        worth_it = chances.likely(caution.bold_likely) & (
            worth > (-np.inf if searching else chances.price * caution.bold_gain)
        )
        return np.where(worth_it, (worth - chances.harm / 2) / cost, -np.inf)

    def _weights(self, surrogate: Surrogate) -> Caution:
        """No board answers without noise: without, this is a record, which no burst harms and one burst exhausts."""
        return _OF_A_RECORD if surrogate.exact and self._caution is _ON_A_BOARD else self._caution

    def _hope(self, problem: Problem, trials: Sequence[Trial], surrogate: Surrogate, chances: _Chances) -> Array:
        """What a burst at each untried setting is worth while nothing holds the cap, shape (n,): first of all, hold it.

        Minus infinity where one more burst at a tried setting, which the study makes, is worth more: noise alone may
        have put it above the cap.
        """
        hope = np.where(chances.below, chances.holds.mean(0), 0.0)
        if hope.max() < _HOPELESS:  # too little to tell settings apart: down
            over = self._stops and _broken(problem, trials) >= _ENOUGH_BROKEN
            return np.where(chances.below & (not over), -chances.outlook.power.mean(0), -np.inf)
        found = chances.hope()
        tried = [e.setting for e in surrogate.evidence.values() if not e.exact and len(e.measurements) < MAX_BURSTS]
        if tried and self.repeats:
            again = _Chances(problem, trials, surrogate, tried, self._weights(surrogate), mask=self._mask)
            found = np.where(found > again.hope().max(), found, -np.inf)
        return np.where(chances.below, found, -np.inf)

    def _start(self, problem: Problem, untried: Sequence[Setting], failed: int) -> Setting:
        """A first setting that hardly breaks the cap: a low clock or the highest limit below the cap, and a batch size
        that keeps the accelerator busy, as the tuned one will. After failures, smaller ones."""
        cap, limits = problem.cap, next((k.values for k in problem.space.knobs if k.name == LIMIT), ())
        batch = _START_BATCH
        if cap is not None and limits:  # where every limit is above the cap, it is the batch size that has to hold it
            batch = 1.0 if limits[0] <= cap.watts else _HELD_BY_BATCH

        wanted: dict[str, float] = {}
        for knob in problem.space.knobs:
            last = len(knob.values) - 1
            if knob.name == BATCH_KNOB:
                rank = round(batch * last / 2**failed)
            elif cap is None:
                rank = last
            elif knob.name == LIMIT:
                rank = max(sum(value <= cap.watts for value in limits) - 1, 0)
            else:
                rank = round(_START_CLOCK * last)
            wanted[knob.name] = knob.values[rank]
        if wanted in untried:
            return wanted

        def distance(setting: Setting) -> tuple[int, ...]:
            away = [abs(k.values.index(setting[k.name]) - k.values.index(wanted[k.name])) for k in problem.space.knobs]
            return (sum(away), *away)

        return min(untried, key=distance)


class _Chances:
    """What a burst may come to at each of n settings.

    Attributes:
        outlook: The surrogate's view.
        holds: P(power <= cap), with a margin, by sample, shape (s, n).
        fits: P(the batch fits into memory), shape (n,).
        below: Whether no setting that broke the cap says that this one will, shape (n,).
        price: Of a burst above the cap, by now, in units of the first one's.
        harm: Expected, in relative gain of the goal, shape (n,).
    """

    def __init__(
        self,
        problem: Problem,
        trials: Sequence[Trial],
        surrogate: Surrogate,
        settings: Sequence[Setting],
        caution: Caution,
        *,
        mask: bool,
    ) -> None:
        self.outlook = surrogate.outlook(settings)
        self.holds = self.outlook.within(problem.cap, 1.0 if surrogate.exact else _MARGIN)
        self.fits = problem.fits(trials, settings)
        self.price = 1 + caution.rise * _broken(problem, trials)
        self._broken = 1 - self.outlook.within(problem.cap).mean(0)
        self._mask = mask
        self.below, self.harm = np.ones(len(settings), bool), caution.any_harm * (1 - self.fits)
        if mask:
            self.below = ~_above_broken(problem, trials, settings)
            far = 1 - self.outlook.within(problem.cap, 1.05).mean(0)
            above = self.price * (caution.any_harm * self._broken + caution.far_harm * far)
            self.harm = self.harm + above * self.fits

    def likely(self, probability: float) -> np.ndarray:
        """Where the cap is held with this probability at least, shape (n,); everywhere where no mask is wanted."""
        held = 1 - self._broken >= probability
        return self.below & held if self._mask else np.ones_like(held)

    def hope(self) -> Array:
        """What each setting is worth while nothing holds the cap, shape (n,)."""
        likelihood = np.log(np.maximum(self.holds.mean(0) * self.fits, 1e-12))
        return np.asarray(_FEASIBILITY_FIRST * likelihood + self.outlook.merit.mean(0) - 2 * self.harm)


def _first(chances: _Chances) -> Array:
    """What the first burst at each setting is worth by earlier records alone, shape (n,): the fastest that is likely to
    hold the cap."""
    merit = (chances.outlook.merit - chances.outlook.merit.mean(1, keepdims=True)).mean(0)  # the scale is not known yet
    holds = chances.holds.mean(0) * chances.fits
    likely = holds >= min(_LIKELY_FIRST, holds.max() / 2)
    return np.where(likely, merit + np.log(np.maximum(holds, 1e-12)), -np.inf)


def _broken(problem: Problem, trials: Sequence[Trial]) -> int:
    """How many bursts were above the cap."""
    return sum((excess(problem, trial) or 0.0) > 0 for trial in trials)


def _above_broken(problem: Problem, trials: Sequence[Trial], settings: Sequence[Setting]) -> np.ndarray:
    """Which settings have all clocks and limits at or above those of one that broke the cap, else equal; shape (n,).

    Power rises with a clock at a fixed batch size. It does not with the batch size. A clock that was not held is not
    held by another batch size either.
    """
    names = problem.space.names
    rising = [i for i, name in enumerate(names) if name in RISING]
    fixed = [i for i, name in enumerate(names) if name not in RISING]
    keys = np.array([problem.space.key(setting) for setting in settings])
    above = np.zeros(len(settings), bool)
    for trial in trials:
        key = np.array(problem.space.key(trial.setting))
        higher = (keys[:, rising] >= key[rising]).all(1)
        if (excess(problem, trial) or 0.0) > _SURELY:
            above |= higher & (keys[:, fixed] == key[fixed]).all(1)
        elif trial.status in _CLOCK_FAILED and rising:
            above |= higher
    return above


def _relative_cost(trials: Sequence[Trial], surrogate: Surrogate, settings: Sequence[Setting]) -> Array:
    """Seconds a burst takes at each setting, relative to the mean burst so far; shape (n,).

    Bursts have a fixed length, but warm-up and settling take steps: cost = a + m x step time, by least squares.
    """
    spent = [(trial.setting, trial.measurement.cost_s) for trial in trials if trial.valid and trial.measurement]
    if not spent or min(seconds for _, seconds in spent) <= 0:
        return np.ones(len(settings))
    known = surrogate.step_time([setting for setting, _ in spent])
    seconds = np.array([seconds for _, seconds in spent])
    (fixed, steps), _ = nnls(np.column_stack([np.ones_like(known), known]), seconds)
    return np.asarray((fixed + steps * surrogate.step_time(settings)) / seconds.mean())
