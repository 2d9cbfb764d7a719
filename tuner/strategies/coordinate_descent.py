"""`coordinate-descent`: one knob at a time, in the spirit of Fulcrum's GMD; not a reproduction of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from devices.device import BATCH_KNOB, Knob, Setting
from devices.measurement import Status
from tuner.problem import Problem
from tuner.space import Key
from tuner.strategies.proposal import ProposingStrategy, excess, first_bursts, goal_value
from tuner.trial import Trial

Merit = tuple[int, float]
"""Compared in order: whether a setting failed (0), breaks the cap (1) or holds it (2); then how well."""

_FAILED: Merit = (0, -math.inf)


class CoordinateDescentStrategy(ProposingStrategy):
    """A pattern search (Hooke and Jeeves 1961) over the ranks of the knobs' values, within the cap; Fulcrum's GMD
    (arXiv 2509.20205) walks power modes knob by knob too, with a pruning that is not published.

    From the safe start, each knob in turn is stepped up, or down where up is no better: a step that raises the goal
    within the cap is taken and doubled, another one is halved, down to the neighbour. Above the cap a step that lowers
    the power is taken, and out of memory one to a smaller batch. Converges when no neighbour along one knob is better,
    which need not be the optimum.
    """

    name = "coordinate-descent"

    def finished(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        return self.propose(problem, trials) is None

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        try:
            _Walk(problem, trials).follow()
        except _Unmeasured as end:
            return end.setting
        return None


class _Unmeasured(Exception):  # noqa: N818  # no error: where the walk stands
    """The walk came to a setting that has no burst yet."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting


class _Walk:
    """Replays the walk over the first burst at each setting; it ends where one is missing."""

    def __init__(self, problem: Problem, trials: Sequence[Trial]) -> None:
        self._problem = problem
        self._space = problem.space
        self._open = problem.open_space(trials)
        bursts = first_bursts(problem, trials)
        self._merits: Mapping[Key, Merit] = {key: self._judge(trial) for key, trial in bursts.items()}

    def follow(self) -> Setting:
        """The setting where no neighbour is better.

        Raises:
            _Unmeasured: a burst is missing; it holds the setting.
        """
        here = self._space.safe_start()
        merit = self._merit(here)
        improved = True
        while improved:
            improved = False
            for knob in self._space.free:
                for direction in (1, -1):
                    there, found = self._along(knob, direction, here, merit)
                    if found > merit:
                        here, merit, improved = there, found, True
                        break
        return here

    def _along(self, knob: Knob, direction: int, here: Setting, merit: Merit) -> tuple[Setting, Merit]:
        """The best setting found from `here` in one direction of a knob, and its merit."""
        step = 1
        while step:
            rank = knob.values.index(here[knob.name]) + direction * step
            there = {**here, knob.name: knob.values[rank]} if 0 <= rank < len(knob.values) else None
            found = _FAILED if there is None else self._merit(there)
            if there is not None and found > merit:
                here, merit, step = there, found, 2 * step
            else:
                step //= 2
        return here, merit

    def _merit(self, setting: Setting) -> Merit:
        merit = self._merits.get(self._space.key(setting))
        if merit is not None:
            return merit
        if setting not in self._space:
            return _FAILED
        if setting not in self._open:
            return _too_large(setting)
        raise _Unmeasured(setting)

    def _judge(self, trial: Trial) -> Merit:
        above, value = excess(self._problem, trial), goal_value(self._problem, trial)
        if trial.status is Status.OOM:
            return _too_large(trial.setting)
        if above is None:  # a pending burst counts as a failed step: others are tried meanwhile
            return _FAILED
        if above > 0:
            return (1, -above)
        if value is None:
            return _FAILED
        return (2, value if self._problem.goal.maximize else -value)


def _too_large(setting: Setting) -> Merit:
    """Of a setting that does not fit into memory, or that is not tried for now because it hardly does."""
    return (0, -setting.get(BATCH_KNOB, math.inf))
