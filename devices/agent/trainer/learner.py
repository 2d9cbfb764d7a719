"""What learns: the model with its optimizer and its learning rates."""

import math
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from .data import split
from .loop import LossError, judge, place, train_window
from .norms import FROZEN, GROUP, Norms
from .precision import Precision
from .schedule import Schedule
from .state import Asked


class Learner:
    """A new model on a device, with a new optimizer.

    Args:
        workload: Makes both, and perhaps a scheduler.
        asked: The plan.
        device: Where to train.

    Raises:
        ValueError: the precision is none of this torch or device.
    """

    def __init__(self, workload: Any, asked: Asked, device: torch.device) -> None:
        self.workload = workload
        self.device = device
        self.model: torch.nn.Module = workload.model().to(device)
        self.model.train()
        self._norms = Norms(self.model, asked.batch_norm)
        self._precision = Precision(asked.precision, device, asked.effective_batch)
        rate = asked.learning_rate
        self.optimizer: torch.optim.Optimizer = workload.optimizer(list(self.model.parameters()), rate)
        own = getattr(workload, "scheduler", None)
        scheduler = None if own is None else own(self.optimizer, asked.steps)
        ramp = (asked.warm_up_from, rate, asked.warm_up_steps, asked.decay, asked.steps)
        self._schedule = Schedule(self.optimizer, *ramp, scheduler=scheduler)
        self._asked = asked
        self._usual = min(asked.micro_batch, asked.effective_batch)

    def notes(self) -> List[str]:
        """What the user should know of how this model learns."""
        asked = self._asked
        if not self._norms.found:
            return ["the model has no batch normalization to change"] if asked.batch_norm in (FROZEN, GROUP) else []
        if asked.batch_norm == GROUP:
            text = "group normalization stands in for batch normalization, in model.pt too"
            return [text + "; the study measured the model as it is"]
        if asked.batch_norm == FROZEN:
            text = "batch normalization uses running statistics and does not update them"
            return [text + ("; those of new weights normalize nothing" if self._norms.new else "")]
        if len(split(asked.effective_batch, asked.micro_batch)) == 1:
            return []
        text = (
            "the model has batch normalization: its statistics are those of a micro-batch, {}, not of the {} of a "
            "step; --batch-norm group or frozen makes accumulation exact"
        )
        samples = "1 sample" if asked.micro_batch == 1 else "{} samples".format(asked.micro_batch)
        return [text.format(samples, asked.effective_batch)]

    @property
    def skipped(self) -> int:
        """Optimizer steps that were left out for gradients that overflow fp16."""
        return self._precision.skipped

    def learn(self, step: int, sizes: List[int], batches: Iterator[Any]) -> Tuple[float, int, float]:
        """Make an optimizer step.

        Args:
            step: Its number, from 0.
            sizes: Samples of each of its micro-batches.
            batches: As many are taken.

        Returns:
            Sum of the losses, number of terms, learning rate.

        Raises:
            ValueError: see `train_window`.
        """
        rate = self._schedule.set(step)
        skipped = self._precision.skipped
        try:
            loss_sum, terms = train_window(
                self.workload,
                self.model,
                self.optimizer,
                self._placed(sizes, batches),
                self._precision,
                self._asked.clip_norm,
            )
        except LossError as error:
            where = "in step {} of {}, at learning rate {:g}".format(step + 1, self._asked.steps, rate)
            raise LossError(error.value, where) from error
        if self._precision.skipped == skipped:
            self._schedule.stepped()
        return loss_sum, terms, rate

    def _placed(self, sizes: List[int], batches: Iterator[Any]) -> Iterator[Any]:
        """The micro-batches of a step, on the device.

        A single sample that is left of a larger window or micro-batch is normalized by the running statistics: it has
        none worth the name of its own, and torch refuses one of 1x1 pixels.
        """
        for size, batch in zip(sizes, batches):  # noqa: B905  (Python 3.6); in this order it takes no batch too many
            alone = size == 1 and self._usual > 1
            if alone:
                self._norms.skip()
            yield place(batch, self.device)
            if alone:
                self._norms.go_on()

    def test(self, batches: Iterable[Any]) -> Tuple[Optional[float], Optional[float], List[str]]:
        """Accuracy, 0 to 1 (None without `evaluate`), mean loss of a term (None where it is no number), and notes."""
        placed = (place(batch, self.device) for batch in batches)
        accuracy, loss = judge(self.workload, self.model, placed, self._precision)
        self._norms.go_on()
        if math.isfinite(loss):
            return accuracy, loss, []
        return accuracy, None, ["the loss on the test data is {}".format(loss)]

    def require_finite(self, step: int) -> None:
        """See that the weights are numbers, before they replace those of a checkpoint.

        Raises:
            LossError: they are not: a gradient overflowed, and no loss has told it yet.
        """
        bad = [name for name, weight in self.model.named_parameters() if not bool(torch.isfinite(weight).all())]
        if bad:
            raise LossError(math.nan, "after step {}".format(step), "a weight in {}".format(bad[0]))

    def state(self) -> Dict[str, Any]:
        """What `restore` takes."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self._schedule.state(),
            "precision": self._precision.state(),
        }

    def restore(self, state: Dict[str, Any], source: str) -> None:
        """Take weights and the optimizer's memory from a checkpoint.

        Raises:
            ValueError: they are of another model; names `source`.
        """
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self._schedule.restore(state.get("schedule"))
            self._precision.restore(state.get("precision"))
        except (RuntimeError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())[:300]
            raise ValueError(
                "{} does not fit the model ({}); start anew without --resume".format(source, why)
            ) from error
