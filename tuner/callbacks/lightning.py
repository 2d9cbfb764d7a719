"""A frozen config in Lightning's Trainer: `Trainer(..., callbacks=[TunedCallback("frozen.json")])`."""

from __future__ import annotations

import logging
import os

from lightning.pytorch import Callback, LightningModule, Trainer

from devices.device import HERE, Access
from tuner.callbacks.guard import CapGuard, OnBreach

_logger = logging.getLogger("lightning.pytorch")


class TunedCallback(Callback):
    """Holds a frozen setting from the first step to the last, and ends a training that breaks its cap, or warns of it.
    Everything is put back after an exception too.

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

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        size = getattr(trainer.train_dataloader, "batch_size", None)
        self._guard.begin(trainer.world_size, size, trainer.accumulate_grad_batches)

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        if self._guard.must_stop():
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        figures = self._guard.end()
        if figures:
            _logger.info("power: %s", figures)
            for logger in trainer.loggers:
                logger.log_metrics(figures, step=trainer.global_step)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._guard.end()
