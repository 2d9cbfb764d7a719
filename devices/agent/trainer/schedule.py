"""The learning rate of every optimizer step."""

from typing import Any, List

import torch


def learning_rate(step: int, warm_up_from: float, peak: float, warm_up_steps: int) -> float:
    """Learning rate of a step (from 0): linear from `warm_up_from` to `peak` at `warm_up_steps`, then constant.

    Source: Goyal et al., 2017, arXiv:1706.02677, section 2.2: gradual warm-up to the linearly scaled rate.
    """
    if step >= warm_up_steps:
        return peak
    return warm_up_from + (peak - warm_up_from) * (step / warm_up_steps)


class Schedule:
    """Sets the learning rates of an optimizer.

    A parameter group that was made with a rate of its own keeps its ratio to the optimizer's.

    Args:
        optimizer: Newly made at the learning rate `peak`.
        warm_up_from: Learning rate of the first step.
        peak: Learning rate after the warm-up; > 0.
        warm_up_steps: Steps until then.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, warm_up_from: float, peak: float, warm_up_steps: int) -> None:
        self._optimizer = optimizer
        self._warm_up = (warm_up_from, peak, warm_up_steps)
        self._ratios: List[float] = [float(group["lr"]) / peak for group in optimizer.param_groups]

    def set(self, step: int) -> float:
        """Set the rates for a step (from 0); the rate of a group without one of its own."""
        rate = learning_rate(step, *self._warm_up)
        for group, ratio in zip(self._optimizer.param_groups, self._ratios):  # noqa: B905  (Python 3.6)
            known: Any = group["lr"]
            if isinstance(known, torch.Tensor):
                known.fill_(rate * ratio)  # an optimizer that captured it goes on reading this one
            else:
                group["lr"] = rate * ratio
        return rate
