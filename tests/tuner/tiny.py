"""The smallest training with each library: it tells how many samples every optimizer step saw."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", PL_DISABLE_FORK="1")  # before they are imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from accelerate import Accelerator  # type: ignore[import-untyped]
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader
    from transformers import Trainer as FaceTrainer
    from transformers import TrainerCallback, TrainingArguments

SAMPLES = 128
Row = dict[str, torch.Tensor]
AfterStep = Callable[[], None]


def nothing() -> None:
    """What most steps do besides."""


class Counter:
    """Samples seen since the last optimizer step, and the learning rate of that step."""

    def __init__(self, after_step: AfterStep = nothing) -> None:
        self.steps: list[int] = []
        self.learning_rates: list[float] = []
        self._seen = 0
        self._after_step = after_step

    def see(self, samples: int) -> None:
        self._seen += samples

    def step(self, optimizer: Any) -> None:
        self.steps.append(self._seen)
        self.learning_rates.append(optimizer.param_groups[0]["lr"])
        self._seen = 0
        self._after_step()


class Net(torch.nn.Module):
    """A line, as Hugging Face wants it: a dictionary with the loss."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.line = torch.nn.Linear(3, 1)
        self._counter = counter

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self._counter.see(len(x))
        return {"loss": torch.nn.functional.mse_loss(self.line(x), labels)}


class Counted(torch.optim.SGD):
    """SGD that tells of its steps."""

    counter: Counter

    def step(self, closure: Any = None) -> Any:
        found = super().step(closure)
        self.counter.step(self)
        return found


def counted(model: torch.nn.Module, learning_rate: float, counter: Counter) -> Counted:
    optimizer = Counted(model.parameters(), lr=learning_rate)
    optimizer.counter = counter
    return optimizer


def rows() -> list[Row]:
    return [{"x": torch.randn(3), "labels": torch.zeros(1)} for _ in range(SAMPLES)]


def load(batch_size: int) -> DataLoader[Row]:
    return DataLoader(rows(), batch_size=batch_size)  # type: ignore[arg-type]


def train_with_huggingface(
    arguments: dict[str, Any],
    folder: Path,
    callbacks: Sequence[TrainerCallback] = (),
    steps: int = 1,
    after_step: AfterStep = nothing,
) -> tuple[Counter, FaceTrainer]:
    """`steps` optimizer steps of Trainer with the exported arguments."""
    counter = Counter(after_step)
    model = Net(counter)
    args = TrainingArguments(
        str(folder), **arguments, max_steps=steps, use_cpu=True, disable_tqdm=True, report_to=[], save_strategy="no",
        lr_scheduler_type="constant", logging_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    optimizer = counted(model, args.learning_rate, counter)
    trainer = FaceTrainer(model, args, train_dataset=rows(), callbacks=list(callbacks), optimizers=(optimizer, None))
    trainer.train()
    return counter, trainer


class Module(LightningModule):
    """The same for Lightning."""

    def __init__(self, learning_rate: float, counter: Counter) -> None:
        super().__init__()
        self.net = Net(counter)
        self._rate = learning_rate
        self._counter = counter

    def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        return self.net(**batch)["loss"]  # type: ignore[no-any-return]

    def configure_optimizers(self) -> Counted:
        return counted(self.net, self._rate, self._counter)


def train_with_lightning(
    exported: dict[str, Any],
    callbacks: Sequence[Any] = (),
    steps: int = 1,
    after_step: AfterStep = nothing,
    logger: Any = False,
) -> tuple[Counter, Trainer]:
    """`steps` optimizer steps of Trainer with the exported arguments."""
    counter = Counter(after_step)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few workers, a short epoch
        trainer = Trainer(
            **exported["trainer"], max_steps=steps, accelerator="cpu", logger=logger, callbacks=list(callbacks),
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
        )  # fmt: skip
        trainer.fit(Module(exported["learning_rate"], counter), load(exported["batch_size"]))
    return counter, trainer


def train_with_accelerate(exported: dict[str, Any], steps: int = 1) -> Counter:
    """`steps` optimizer steps of Accelerate's own loop with the exported arguments."""
    counter = Counter()
    accelerator = Accelerator(cpu=True, **exported["accelerator"])
    plain = Net(counter)
    model, optimizer, loader = accelerator.prepare(
        plain,
        counted(plain, exported["learning_rate"], counter),
        load(exported["batch_size"]),
    )
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
        if len(counter.steps) == steps:
            break
    return counter


@contextmanager
def quiet() -> Iterator[None]:
    """Lightning says which accelerators it found."""
    names = ("lightning.pytorch.utilities.rank_zero", "lightning.pytorch.accelerators.cuda", "lightning.fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
