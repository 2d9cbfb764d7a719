"""For strategies that are a plain function of the trials: an Ax node that asks it, and what the trials answered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.exceptions.core import SearchSpaceExhausted
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy

from devices.device import Setting, knob_value
from devices.measurement import Status
from tuner.problem import Problem
from tuner.strategies.experiment import AxBackedStrategy
from tuner.strategies.strategy import Strategy, Suggestion
from tuner.trial import Trial


class ProposingStrategy(Strategy):
    """A strategy that proposes one setting at a time from the trials themselves.

    Ax's own record of an experiment knows neither statuses nor baselines, and its logarithms cost the last digit, which
    decides at a cap; so the node is given the trials it stands for.
    """

    @abstractmethod
    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        """An untried setting of `problem.open_space(trials)`, or None where nothing is worth a burst.

        Pending trials are among `trials`, also those that the same call of `suggest` proposed before.
        """

    def part(self, problem: Problem, trials: Sequence[Trial]) -> Problem:
        """The problem as this strategy sees it; it is never shown the trials outside that one's space.

        Raises:
            UnsupportedError: a problem this strategy cannot serve.
        """
        return problem

    def finished(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        """Whether to stop although settings are left. Once true, it stays true whatever is measured besides."""
        return False

    def suggest(self, problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        part = self.part(problem, trials)
        inside = [trial for trial in trials if trial.setting in part.space]
        return _Following(self, inside).suggest(part, inside, n)


class _Following(AxBackedStrategy):
    """Runs a `ProposingStrategy` inside an Ax experiment."""

    name = "proposing"
    keeps_state = False

    def __init__(self, strategy: ProposingStrategy, trials: Sequence[Trial]) -> None:
        self._strategy = strategy
        self._trials = trials

    def generation_strategy(self, problem: Problem) -> GenerationStrategy:
        return GenerationStrategy(
            name=self._strategy.name, nodes=[ProposalNode(self._strategy, problem, list(self._trials))]
        )

    def converged(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        return self._strategy.finished(problem, trials)


class ProposalNode(ExternalGenerationNode):  # type: ignore[misc]  # Ax is untyped here
    """Asks a strategy for its next setting."""

    def __init__(self, strategy: ProposingStrategy, problem: Problem, trials: list[Trial]) -> None:
        super().__init__(name=strategy.name, should_deduplicate=False)  # AxExperiment does, and knows the space
        self._strategy = strategy
        self._problem = problem
        self._trials = trials

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Nothing: the trials were given, and what this node proposed meanwhile is pending."""

    def get_next_candidate(self, pending_parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """The strategy's next setting.

        Raises:
            SearchSpaceExhausted: it has none.
        """
        space = self._problem.space
        known = {space.key(trial.setting) for trial in self._trials}
        for parameters in pending_parameters:
            setting = {k.name: knob_value(parameters.get(k.name, k.values[0])) for k in space.knobs}
            if space.key(setting) not in known:
                self._trials.append(Trial(len(self._trials), setting))
        proposal = self._strategy.propose(self._problem, self._trials)
        if proposal is None:
            raise SearchSpaceExhausted(f"{self.name} has nothing more to try")
        return {knob.name: float(proposal[knob.name]) for knob in space.free}


def goal_value(problem: Problem, trial: Trial) -> float | None:
    """The goal's value found by a burst, None where none was found."""
    if trial.measurement is None or trial.status not in (Status.OK, Status.OVER_CAP):
        return None
    estimate = problem.goal.estimate(trial.measurement)
    return None if estimate is None else estimate.value


def excess(problem: Problem, trial: Trial) -> float | None:
    """How far above the cap a burst was, relative to the cap: 0 or less where it held it, None where nobody knows.

    A burst that the guard ended was above the cap, if by little more than nothing: its power is a lower bound.
    """
    if trial.measurement is None or trial.status not in (Status.OK, Status.OVER_CAP):
        return None
    if problem.cap is None:
        return 0.0
    power = trial.measurement.power(problem.cap.statistic)
    relative = None if power is None else power.value / problem.cap.watts - 1
    if trial.status is Status.OVER_CAP:
        return max(relative or 0.0, 1e-3)
    return relative


def first_bursts(problem: Problem, trials: Sequence[Trial]) -> dict[tuple[float, ...], Trial]:
    """The first burst at each setting.

    A walk is replayed over these: later bursts confirm a choice or measure a baseline, and must not unmake the walk.
    """
    bursts: dict[tuple[float, ...], Trial] = {}
    for trial in trials:
        bursts.setdefault(problem.space.key(trial.setting), trial)
    return bursts
