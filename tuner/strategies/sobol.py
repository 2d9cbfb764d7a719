"""`sobol`: a quasi-random sequence over the space, without a model. The yardstick."""

from __future__ import annotations

from ax.adapter.registry import Generators
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from tuner.problem import Problem
from tuner.strategies.experiment import AxBackedStrategy, rng_seed


class SobolStrategy(AxBackedStrategy):
    """Ax's scrambled Sobol sequence, without repetition; converges when the space is exhausted."""

    name = "sobol"

    def generation_strategy(self, problem: Problem) -> GenerationStrategy:
        return GenerationStrategy(
            name=self.name,
            nodes=[
                GenerationNode(
                    name=self.name,
                    generator_specs=[
                        GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": rng_seed(problem.seed)})
                    ],
                    should_deduplicate=True,
                )
            ],
        )
