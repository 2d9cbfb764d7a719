"""How the learning rate follows the effective batch."""

from __future__ import annotations

import math

RULES = ("linear", "sqrt", "none")
_ADAPTIVE = ("adam", "rmsprop", "adagrad", "adadelta")  # in the names of optimizers that divide by a gradient's size


def rule_for(optimizer: str) -> str:
    """The rule that belongs to an optimizer, by its name: `sqrt` for the Adam family, else `linear`."""
    return "sqrt" if any(name in optimizer.lower() for name in _ADAPTIVE) else "linear"


def scale(learning_rate: float, effective_batch: int, batch: int, rule: str) -> float:
    """The learning rate of `effective_batch` that belongs to `learning_rate` at `batch`.

    Linear: Goyal et al. 2017, arXiv:1706.02677, section 2.1; square root, for adaptive optimizers: Malladi et al. 2022,
    arXiv:2205.10287; none: the rate as it is.

    Args:
        learning_rate, batch: What belongs together.
        effective_batch: Samples of an optimizer step.
        rule: One of `RULES`.
    """
    ratio = effective_batch / batch
    return learning_rate * {"linear": ratio, "sqrt": math.sqrt(ratio), "none": 1.0}[rule]
