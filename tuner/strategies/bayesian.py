"""`ax`: Ax's own Bayesian optimization: Sobol, then BoTorch's expected improvement with the cap as constraint."""

from __future__ import annotations

from collections.abc import Sequence

from ax.api.utils.generation_strategy_dispatch import choose_generation_strategy
from ax.api.utils.structs import GenerationStrategyDispatchStruct
from ax.generation_strategy.generation_strategy import GenerationStrategy

from devices.device import Setting
from tuner.models.search import most_worth
from tuner.models.surrogate import Surrogate, power_readings
from tuner.problem import Problem
from tuner.strategies.experiment import AxBackedStrategy, rng_seed
from tuner.trial import Trial

_MIN_TRIALS = 15  # before a surrogate of so few points is believed that nothing is left to gain
_MIN_READINGS = 5  # above the cap, before the search turns to finding anything below it
_MIN_GAIN = 0.0002  # expected relative improvement below which a burst is not worth its time


class AxStrategy(AxBackedStrategy):
    """Ax's default for this space, with a safe first setting instead of the centre. While nothing holds the cap, the
    setting expected to draw least is tried.

    Converges when no untried setting is expected to gain more than 0.02 % under the cap.
    """

    name = "ax"

    def preferred(self, problem: Problem, trials: Sequence[Trial], untried: Sequence[Setting]) -> Setting | None:
        if not trials:
            return problem.space.safe_start()
        readings = power_readings(problem, trials)
        if (
            problem.cap is None
            or len(readings) < _MIN_READINGS
            or any(p.value <= problem.cap.watts for _, p in readings)
        ):
            return None
        surrogate = Surrogate(problem, trials)
        tried = [trial.setting for trial in trials]
        return most_worth(
            problem.open_space(trials), lambda s: -surrogate.power_log(s)[0], tried, (problem.seed, len(trials))
        )[0]

    def generation_strategy(self, problem: Problem) -> GenerationStrategy:
        return choose_generation_strategy(
            GenerationStrategyDispatchStruct(
                method="fast",
                initialize_with_center=False,
                initialization_random_seed=rng_seed(problem.seed),
                allow_exceeding_initialization_budget=True,
            )
        )

    def converged(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        if len(trials) < _MIN_TRIALS or not any(trial.valid for trial in trials):
            return False
        gain, tried = Surrogate(problem, trials).expected_gain, [trial.setting for trial in trials]
        return most_worth(problem.open_space(trials), gain, tried, (problem.seed, len(trials)))[1] < _MIN_GAIN
