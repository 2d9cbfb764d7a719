"""`random`: settings drawn uniformly, without repetition. The floor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devices.device import Setting
from tuner.problem import Problem
from tuner.strategies.experiment import rng_seed
from tuner.strategies.proposal import ProposingStrategy
from tuner.trial import Trial


class RandomStrategy(ProposingStrategy):
    """Random search (Bergstra and Bengio 2012) over the settings; converges when none is left."""

    name = "random"

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        space = problem.open_space(trials)
        untried = space.untried(trial.setting for trial in trials)
        generator = np.random.default_rng(rng_seed(problem.seed, len(trials)))
        return untried[int(generator.integers(len(untried)))] if untried else None
