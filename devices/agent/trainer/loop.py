"""One optimizer step over several micro-batches, and the test of a model."""

import math
import numbers
from typing import Any, Iterable, List, Optional, Tuple

import torch
from torch import nn

from .precision import FULL, Precision

PAIR = "it must return a pair: the sum of the losses as a tensor, and the number of terms in it"


class LossError(ValueError):
    """A loss, or what came of it, that is no finite number. The weights in the last checkpoint are whole."""

    def __init__(self, value: float, where: str = "", what: str = "the loss") -> None:
        super().__init__(
            "{} is {}{}; a lower learning rate or other data may mend it".format(what, value, where and " " + where)
        )
        self.value = value


def train_window(
    workload: Any,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    micro_batches: Iterable[Any],
    precision: Precision = FULL,
    clip_norm: Optional[float] = None,
) -> Tuple[float, int]:
    """Make one optimizer step of the mean loss over all terms (samples, tokens) of some micro-batches.

    The sums of the losses are differentiated, and the gathered gradients divided by the number of terms once that is
    known. So the step is the full batch's, whatever the split: averaging the means of micro-batches would weigh the
    terms of a smaller one more. (Exact but for rounding, and for layers that look across samples: batch norm.)

    Args:
        workload: Gives `loss`.
        model: In training mode.
        optimizer: Its gradients are None or 0, and so again afterwards, also where something is raised.
        micro_batches: On the model's device; taken one by one, each after the backward pass of the one before.
        precision: Of the forward passes.
        clip_norm: Longest gradient of the whole step, by its Euclidean norm; a longer one is scaled down. None: any.

    Returns:
        The sum of the losses of all terms, and their number.

    Raises:
        LossError: the sum is no finite number; no step was made.
        ValueError: `loss` returned something else than its contract says; no step was made.
    """
    losses: List[torch.Tensor] = []
    count = 0
    try:
        for batch in micro_batches:
            with precision.forward():
                loss, terms = checked_loss(workload.loss(model, batch), differentiable=True)
            precision.backward(loss)
            losses.append(loss.detach())
            count += terms
        if not losses:
            raise ValueError("a window needs at least one micro-batch")
        # The only wait for the accelerator in a step. Added up in float64, which some accelerators lack.
        loss_sum = math.fsum(torch.stack(losses).tolist())
        if not math.isfinite(loss_sum):
            raise LossError(loss_sum)
        precision.unscale(optimizer)
        learned = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if learned:
            torch._foreach_div_([p.grad for p in learned], float(count))  # one launch, not one a parameter
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(learned, clip_norm)
        precision.step(optimizer)
    finally:
        optimizer.zero_grad(set_to_none=True)
    return loss_sum, count


def judge(
    workload: Any, model: nn.Module, batches: Iterable[Any], precision: Precision = FULL
) -> Tuple[Optional[float], float]:
    """Test a model, in evaluation mode and without gradients.

    Args:
        workload: Gives `loss`, and perhaps `evaluate`.
        model: Left in training mode.
        batches: At least one; on the model's device.
        precision: Of the forward passes.

    Returns:
        The share of terms that are right, 0 to 1, or None without `evaluate`; and the mean loss of a term (which may
        be no finite number).

    Raises:
        ValueError: `loss` or `evaluate` returned something else than its contract says.
    """
    evaluate = getattr(workload, "evaluate", None)
    losses: List[float] = []
    count = correct = judged = 0.0
    model.eval()
    try:
        with torch.no_grad(), precision.forward():
            for batch in batches:
                loss, terms = checked_loss(workload.loss(model, batch), differentiable=False)
                losses.append(float(loss))
                count += terms
                if evaluate is not None:
                    right, asked = _checked_score(evaluate(model, batch))
                    correct += right
                    judged += asked
    finally:
        model.train()
    # Not fsum: that raises where the losses hold both infinities.
    return (correct / judged if evaluate is not None else None), sum(losses) / count


def checked_loss(returned: Any, differentiable: bool) -> Tuple[torch.Tensor, int]:
    """What a workload's `loss` returned, if it is what the contract says.

    Raises:
        ValueError: it is not; says what it is.
    """
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise ValueError("loss(model, batch) returned {}; {}".format(_in_words(returned), PAIR))
    loss, count = returned
    if not isinstance(loss, torch.Tensor):
        raise ValueError("loss(model, batch) returned {} first; {}".format(_in_words(loss), PAIR))
    if loss.dim() != 0:
        raise ValueError(
            "loss(model, batch) returned a sum of shape {}; it must be a single number: reduction='sum'".format(
                tuple(loss.shape)
            )
        )
    if differentiable and not loss.requires_grad:
        raise ValueError(
            "loss(model, batch) returned a sum without gradient; compute it from what the model returns, without "
            "detach(), item() or no_grad()"
        )
    terms = _number(count)
    if terms is None or terms != int(terms) or terms < 1:
        said = "returned {} as the number of terms".format(_in_words(count) if terms is None else "{:g}".format(terms))
        raise ValueError("loss(model, batch) {}; it must be a whole number >= 1".format(said))
    return loss, int(terms)


def _checked_score(returned: Any) -> Tuple[float, float]:
    """What a workload's `evaluate` returned: how many terms are right, of how many."""
    pair = returned if isinstance(returned, (tuple, list)) and len(returned) == 2 else (None, None)
    right, terms = _number(pair[0]), _number(pair[1])
    if right is None or terms is None or not 0 <= right <= terms or terms < 1:
        raise ValueError(
            "evaluate(model, batch) returned {}; it must return a pair: how many terms are right, of how many".format(
                _in_words(returned)
            )
        )
    return right, terms


def _number(value: Any) -> Optional[float]:
    """`value` as a finite number, also where it is a tensor of one; None where it is no such thing."""
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        return None
    return float(value)


def _in_words(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return "({})".format(", ".join(_in_words(item) for item in value[:4]) + (", ..." if len(value) > 4 else ""))
    if isinstance(value, numbers.Number):
        return str(value)
    if isinstance(value, torch.Tensor):
        return "a tensor of shape {}".format(tuple(value.shape))
    return "an object of type {}".format(type(value).__name__)


def place(batch: Any, device: torch.device) -> Any:
    """`batch` with all its tensors on `device`: through tuples, lists and dictionaries, and what has a `to` itself."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: place(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[place(item, device) for item in batch])
    if isinstance(batch, (tuple, list)):
        return type(batch)([place(item, device) for item in batch])
    return batch


def synchronize(device: torch.device) -> None:
    """Wait until `device` has done all it was told to. Nothing to wait for on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type != "cpu":
        wait = getattr(getattr(torch, device.type, None), "synchronize", None)
        if wait is not None:
            wait()
