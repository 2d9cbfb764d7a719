"""`grid`: every setting in order, safest first. The exhaustive way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.exceptions.core import SearchSpaceExhausted
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy

from devices.device import Setting
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies.experiment import AxBackedStrategy
from tuner.trial import Trial


class GridNode(ExternalGenerationNode):  # type: ignore[misc]  # Ax is untyped here
    """Proposes the settings of a space in order: low clocks and limits first, so that power grows along the way."""

    def __init__(self, space: Space) -> None:
        super().__init__(name="grid")
        self._space = space
        self._names = [knob.name for knob in space.free]
        self._left: Callable[[], Iterator[dict[str, Any]]] = lambda: iter(())

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Find the settings that are inside the experiment's search space and that no trial has."""
        seen = {self._key(arm.parameters) for trial in experiment.trials.values() for arm in trial.arms}

        def left() -> Iterator[dict[str, Any]]:  # the first few of what may be millions
            for setting in self._space.settings:
                parameters = {name: float(setting[name]) for name in self._names}
                if self._key(parameters) not in seen and experiment.search_space.check_membership(parameters):
                    yield parameters

        self._left = left

    def get_next_candidate(self, pending_parameters: list[dict[str, Any]]) -> dict[str, Any]:
        """The first setting in order that nobody has tried.

        Raises:
            SearchSpaceExhausted: every setting was proposed.
        """
        pending = {self._key(parameters) for parameters in pending_parameters}
        for parameters in self._left():
            if self._key(parameters) not in pending:
                return parameters
        raise SearchSpaceExhausted("every setting was tried")

    def _key(self, parameters: dict[str, Any]) -> tuple[float, ...]:
        return tuple(float(parameters[name]) for name in self._names)


class GridStrategy(AxBackedStrategy):
    """The whole space in order; converges at its end."""

    name = "grid"
    keeps_state = False

    def preferred(self, problem: Problem, trials: Sequence[Trial], untried: Sequence[Setting]) -> Setting | None:
        return untried[0]  # one at a time it needs no experiment, whose trials cost seconds in long tables

    def generation_strategy(self, problem: Problem) -> GenerationStrategy:
        return GenerationStrategy(name=self.name, nodes=[GridNode(problem.space)])
