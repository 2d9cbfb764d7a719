"""What learns: the model with its optimizer and its learning rates."""

import math
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from .data import split
from .loop import LossError, judge, place, train_window
from .schedule import Schedule
from .state import Asked

BatchNorm = torch.nn.modules.batchnorm._BatchNorm


class Learner:
    """A new model on a device, with a new optimizer.

    Args:
        workload: Makes both.
        asked: The plan.
        device: Where to train.
    """

    def __init__(self, workload: Any, asked: Asked, device: torch.device) -> None:
        self.workload = workload
        self.device = device
        self.model: torch.nn.Module = workload.model().to(device)
        self.model.train()
        rate = asked.learning_rate
        self.optimizer: torch.optim.Optimizer = workload.optimizer(list(self.model.parameters()), rate)
        self._schedule = Schedule(self.optimizer, asked.warm_up_from, rate, asked.warm_up_steps)
        self._asked = asked
        self._usual = min(asked.micro_batch, asked.effective_batch)
        norms = [module for module in self.model.modules() if isinstance(module, BatchNorm)]
        self._has_norms = bool(norms)
        self._norms = [norm for norm in norms if norm.training and norm.track_running_stats]

    def notes(self) -> List[str]:
        """What the user should know of how this model learns."""
        asked = self._asked
        if not self._has_norms or len(split(asked.effective_batch, asked.micro_batch)) == 1:
            return []
        text = (
            "the model has batch normalization: its statistics are those of a micro-batch, {}, not of the {} of a step"
        )
        samples = "1 sample" if asked.micro_batch == 1 else "{} samples".format(asked.micro_batch)
        return [text.format(samples, asked.effective_batch)]

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
        try:
            loss_sum, terms = train_window(self.workload, self.model, self.optimizer, self._placed(sizes, batches))
        except LossError as error:
            where = "in step {} of {}, at learning rate {:g}".format(step + 1, self._asked.steps, rate)
            raise LossError(error.value, where) from error
        return loss_sum, terms, rate

    def _placed(self, sizes: List[int], batches: Iterator[Any]) -> Iterator[Any]:
        """The micro-batches of a step, on the device.

        A single sample that is left of a larger window or micro-batch is normalized by the running statistics: it has
        none worth the name of its own, and torch refuses one of 1x1 pixels.
        """
        for size, batch in zip(sizes, batches):  # noqa: B905  (Python 3.6); in this order it takes no batch too many
            frozen = self._norms if size == 1 and self._usual > 1 else []
            for norm in frozen:
                norm.eval()
            yield place(batch, self.device)
            for norm in frozen:
                norm.train()

    def test(self, batches: Iterable[Any]) -> Tuple[Optional[float], Optional[float], List[str]]:
        """Accuracy, 0 to 1 (None without `evaluate`), mean loss of a term (None where it is no number), and notes."""
        accuracy, loss = judge(self.workload, self.model, (place(batch, self.device) for batch in batches))
        if math.isfinite(loss):
            return accuracy, loss, []
        return accuracy, None, ["the loss on the test data is {}".format(loss)]

    def state(self) -> Dict[str, Any]:
        """What `restore` takes."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: Dict[str, Any], source: str) -> None:
        """Take weights and the optimizer's memory from a checkpoint.

        Raises:
            ValueError: they are of another model; names `source`.
        """
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())[:300]
            raise ValueError(
                "{} does not fit the model ({}); start anew without --resume".format(source, why)
            ) from error
