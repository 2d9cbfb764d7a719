"""Numbers of a forward pass: fp32, or half precision where that loses nothing (automatic mixed precision)."""

import contextlib
import math
from typing import Any, Dict, Optional

import torch

from .state import FP32

_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_LARGEST_SCALE = 2.0**16  # of the loss of one sample, as torch begins
MOST_SKIPPED = 30  # optimizer steps in a row: the scale is below anything that helps by then


class Precision:
    """How a training computes; weights, gradients and the optimizer stay as the model has them.

    In fp16 small gradients would vanish, so the loss is scaled up, by as much as the gradients allow: a step whose
    gradients overflow is left out, and the scale halved. There is one step of the scaler for one of the optimizer.
    Source: Micikevicius et al., 2018, arXiv:1710.03740.

    Args:
        name: `fp32`, `bf16` or `fp16`.
        device: Where it computes.
        effective_batch: Samples of an optimizer step: their losses are summed, so the scale begins lower.

    Raises:
        ValueError: this torch, or this device, cannot.
    """

    def __init__(self, name: str, device: torch.device, effective_batch: int = 1) -> None:
        self._type = _TYPES.get(name)
        self._device = device.type
        self._scaler: Any = None
        self._skipped = 0
        self.skipped = 0  # in all
        if self._type is not None and not hasattr(torch, "autocast"):
            raise ValueError("torch {} cannot compute in {}; train in fp32".format(torch.__version__, name))
        if name == "fp16":
            self._scaler = _new_scaler(self._device, _LARGEST_SCALE / 2 ** math.ceil(math.log2(effective_batch)))

    def forward(self) -> Any:
        """A context manager around what computes a loss."""
        return contextlib.ExitStack() if self._type is None else torch.autocast(self._device, dtype=self._type)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a loss to those that are there."""
        scaled: torch.Tensor = loss if self._scaler is None else self._scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the gathered gradients those of the loss; once an optimizer step."""
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Make the optimizer step, unless the gradients overflowed; whether it was made.

        Raises:
            ValueError: that happens again and again.
        """
        if self._scaler is None:
            optimizer.step()
            return True
        before = self._scaler.get_scale()
        self._scaler.step(optimizer)
        self._scaler.update()
        made: bool = self._scaler.get_scale() >= before
        self._skipped = 0 if made else self._skipped + 1
        self.skipped += not made
        if self._skipped > MOST_SKIPPED:
            raise ValueError(
                "the gradients are no finite numbers in fp16, {} steps in a row; train in bf16 or fp32, or at a lower "
                "learning rate".format(self._skipped)
            )
        return made

    def state(self) -> Optional[Dict[str, Any]]:
        """What `restore` takes."""
        if self._scaler is None:
            return None
        return {"scaler": self._scaler.state_dict(), "row": self._skipped, "skipped": self.skipped}

    def restore(self, state: Optional[Dict[str, Any]]) -> None:
        """Go on with the scale of a checkpoint."""
        if self._scaler is not None and state is not None:
            self._scaler.load_state_dict(state["scaler"])
            self._skipped, self.skipped = state["row"], state["skipped"]


def _new_scaler(device: str, scale: float) -> Any:
    """A scaler of this torch: those before 2.3 have one for CUDA only."""
    general = getattr(getattr(torch, "amp", None), "GradScaler", None)
    if general is not None:
        return general(device, init_scale=scale)
    if device != "cuda":
        raise ValueError("torch {} computes in fp16 on a GPU only; train in bf16 or fp32".format(torch.__version__))
    return torch.cuda.amp.GradScaler(init_scale=scale)


FULL = Precision(FP32, torch.device("cpu"))  # what a model computes in when nothing is said
