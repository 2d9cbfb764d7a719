"""The learning rate of every optimizer step."""

import math
from typing import Any, Dict, List, Optional

import torch

from .state import CHOICES

CONSTANT, LINEAR, COSINE = CHOICES["decay"]


def learning_rate(
    step: int, warm_up_from: float, peak: float, warm_up_steps: int, decay: str = CONSTANT, steps: int = 0
) -> float:
    """Learning rate of a step (from 0): linear from `warm_up_from` to `peak` at `warm_up_steps`, then as `decay` says.

    Sources: Goyal et al., 2017, arXiv:1706.02677, section 2.2: gradual warm-up to the linearly scaled rate; Loshchilov
    and Hutter, 2017, arXiv:1608.03983: cosine.

    Args:
        step: From 0.
        warm_up_from, peak, warm_up_steps: See above.
        decay: `constant`, or down to 0 at `steps` in a straight `linear` line or along a `cosine`.
        steps: Optimizer steps of the whole training.
    """
    if step < warm_up_steps:
        return warm_up_from + (peak - warm_up_from) * (step / warm_up_steps)
    if decay == CONSTANT or steps <= warm_up_steps:
        return peak
    share = min((step - warm_up_steps) / (steps - warm_up_steps), 1.0)
    return peak * (1 - share if decay == LINEAR else (1 + math.cos(math.pi * share)) / 2)


class Schedule:
    """Sets the learning rates of an optimizer.

    A parameter group that was made with a rate of its own keeps its ratio to the optimizer's. A scheduler of the
    workload's own goes on from there: what it makes of the rate is multiplied with warm-up and decay.

    Args:
        optimizer: Newly made at the learning rate `peak`.
        warm_up_from: Learning rate of the first step.
        peak: Learning rate after the warm-up; > 0.
        warm_up_steps: Steps until then.
        decay, steps: See `learning_rate`.
        scheduler: A learning rate scheduler of torch, newly made for `optimizer`, or None.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warm_up_from: float,
        peak: float,
        warm_up_steps: int,
        decay: str = CONSTANT,
        steps: int = 0,
        scheduler: Optional[Any] = None,
    ) -> None:
        self._optimizer = optimizer
        self._peak = peak
        self._ramp = (warm_up_from, peak, warm_up_steps, decay, steps)
        self._scheduler = scheduler
        self._rates: List[float] = self._read()

    def set(self, step: int) -> float:
        """Set the rates for a step (from 0); the rate of a group without one of its own."""
        rate = learning_rate(step, *self._ramp)
        self._write([own * (rate / self._peak) for own in self._rates])
        return rate

    def stepped(self) -> None:
        """An optimizer step was made: the workload's scheduler, if there is one, goes a step on."""
        if self._scheduler is not None:
            self._write(self._rates)  # many compute a rate from the one before
            self._scheduler.step()
            self._rates = self._read()

    def state(self) -> Optional[Dict[str, Any]]:
        """What `restore` takes; None without a scheduler of the workload's."""
        return None if self._scheduler is None else {"rates": self._rates, "scheduler": self._scheduler.state_dict()}

    def restore(self, state: Optional[Dict[str, Any]]) -> None:
        """Go on where a checkpoint left it."""
        if self._scheduler is not None and state is not None:
            self._rates = list(state["rates"])
            self._scheduler.load_state_dict(state["scheduler"])

    def _read(self) -> List[float]:
        return [float(group["lr"]) for group in self._optimizer.param_groups]

    def _write(self, rates: List[float]) -> None:
        for group, rate in zip(self._optimizer.param_groups, rates):  # noqa: B905  (Python 3.6)
            known: Any = group["lr"]
            if isinstance(known, torch.Tensor):
                known.fill_(rate)  # an optimizer that captured it goes on reading this one
            else:
                group["lr"] = rate
