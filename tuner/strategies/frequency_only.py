"""`frequency-only`: what people do: the batch size they have, and the highest clock that holds the cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devices.device import Setting
from devices.errors import UnsupportedError
from tuner.problem import Problem
from tuner.recommend import SPEED_KNOBS
from tuner.strategies.proposal import ProposingStrategy, excess, first_bursts
from tuner.strategies.untuned import line, untuned_setting
from tuner.trial import Trial


class FrequencyOnlyStrategy(ProposingStrategy):
    """The baseline of Ahmed et al. (arXiv 2502.18323): "reduce the GPU frequency to enforce power constraints".

    Batch size and all other knobs stay at their defaults (where no default is known: the middle batch size of the list,
    and the highest value); a batch that runs out of memory gives way to the next smaller one. The knob that is lowered
    is the first of GPU clock, power limit and CPU clock: its highest value is tried, then the list is bisected, as an
    engineer would: power is monotone in it. Converges when the highest value that holds the cap stands beside one that
    breaks it, or is the highest. The goal plays no part; without a cap it is the highest value.
    """

    name = "frequency-only"

    def part(self, problem: Problem, trials: Sequence[Trial]) -> Problem:
        knob = next((name for name in SPEED_KNOBS if name in problem.space.names), None)
        if knob is None:
            raise UnsupportedError(
                f"frequency-only lowers a clock or limit, and there is none among {', '.join(problem.space.names)}",
                hint=f"search one of {', '.join(SPEED_KNOBS)}",
            )
        space = problem.open_space(trials)
        return replace(problem, space=line(space, knob, untuned_setting(problem.space)) if len(space) else space)

    def finished(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        return self.propose(problem, trials) is None

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        settings = sorted(problem.space.settings, key=problem.space.key)  # they differ in one knob
        bursts = first_bursts(problem, trials)
        low, high = -1, len(settings)  # the highest known to hold the cap, the lowest known not to
        middle = len(settings) - 1
        while high - low > 1:
            burst = bursts.get(problem.space.key(settings[middle]))
            if burst is None:
                return settings[middle]
            above = excess(problem, burst)
            # A burst that failed or is still to come counts as one that broke the cap: the next one is below.
            if above is not None and above <= 0:
                low = middle
            else:
                high = middle
            middle = (low + high) // 2
        return None
