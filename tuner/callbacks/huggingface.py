"""A frozen config in Hugging Face's Trainer: `Trainer(..., callbacks=[TunedCallback("frozen.json")])`."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging

from devices.device import HERE, Access
from tuner.callbacks.guard import CapGuard, OnBreach

_logger = logging.get_logger(__name__)


class TunedCallback(TrainerCallback):
    """Holds a frozen setting from the first step to the last, and ends a training that breaks its cap, or warns of it.

    The Trainer does not tell its callbacks of an exception. The clocks are then put back when this process or this
    object ends; at once, where the training runs inside of it: `with TunedCallback("frozen.json") as tuned: ...`.

    Args:
        frozen, accept_source, access: As in `tuner.apply`, which is entered when training begins.
        on_breach: `stop` or `warn`.
    """

    def __init__(
        self,
        frozen: str | os.PathLike[str],
        *,
        on_breach: OnBreach = "stop",
        accept_source: bool = False,
        access: Access = HERE,
    ) -> None:
        self._guard = CapGuard(frozen, on_breach, accept_source, access, _logger.warning)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._guard.begin(args.world_size, args.train_batch_size, args.gradient_accumulation_steps)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._guard.must_stop():
            control.should_training_stop = True

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        figures = self._guard.end()
        if figures:
            state.log_history.append({**figures, "step": state.global_step})
            _logger.info("power: %s", figures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.end()
