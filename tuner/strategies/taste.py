"""`taste`: the throughput-optimal batch size at the stock clock, by TPE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devices.device import BATCH_KNOB, Setting
from devices.errors import UnsupportedError
from tuner.goal import GOALS
from tuner.problem import Problem
from tuner.strategies.optuna import ask_optuna, require_optuna
from tuner.strategies.proposal import ProposingStrategy, first_bursts, goal_value
from tuner.strategies.untuned import line, untuned_setting
from tuner.trial import Trial

_RANDOM_FIRST = 3  # a list of batch sizes has about nine
PATIENCE = 5


class TasteStrategy(ProposingStrategy):
    """TASTE (Bhatnagar, Peccia, Bringmann: arXiv 2609.07444): maximize throughput over the batch size alone.

    The authors use hyperopt's TPE; this is Optuna's, of the same family, as hyperopt is no dependency. How many
    evaluations they make is not known. Every other knob stays at its default, the highest value where none is known:
    the stock state, or the recorded one nearest to it. The search knows no cap and no other goal; what is recommended
    in the end holds the study's cap all the same.

    Converges when every batch size was tried, or 5 (`PATIENCE`) in a row were no faster than the best before them.
    """

    name = "taste"

    def __init__(self) -> None:
        require_optuna(self.name)

    def part(self, problem: Problem, trials: Sequence[Trial]) -> Problem:
        if BATCH_KNOB not in problem.space.names:
            raise UnsupportedError(
                f"taste tunes the batch size, and the knobs here are {', '.join(problem.space.names)}",
                hint="--strategy frequency-only",
            )
        space = problem.open_space(trials)
        stock = line(space, BATCH_KNOB, untuned_setting(problem.space)) if len(space) else space
        return replace(problem, space=stock, goal=GOALS["throughput"], cap=None)

    def finished(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        best, vain = 0.0, 0
        for trial in first_bursts(problem, trials).values():
            if trial.pending:
                continue
            throughput = goal_value(problem, trial) or 0.0
            best, vain = (throughput, 0) if throughput > best else (best, vain + 1)
            if vain == PATIENCE:  # whatever came later was no part of this search
                return True
        return False

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        return ask_optuna(problem, trials, "tpe", _RANDOM_FIRST)
