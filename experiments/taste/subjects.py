"""What is measured and trained: the workloads of the experiments, and how much of each is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from devices.agent.workloads import load
from devices.device import BurstPlan, WorkloadSpec
from devices.knobs import DEFAULT_BATCHES

PIXELS = 16  # of the enlarged digits: MobileNetV2 leaves nothing of 8
TUNING_BURSTS = 25
_BATCHES = tuple(DEFAULT_BATCHES)
_SMALL = {"layers": 2, "embedding": 128, "heads": 4}


@dataclass(frozen=True)
class Subject:
    """A workload, and what is done with it.

    Attributes:
        name: Of the subject, in files and tables.
        workload: What is trained.
        batches: Batch sizes of the curve and of the study, ascending; the reference batch is one of them.
        repeats: Bursts of the curve at each.
        bursts: Budget of the study.
        plan: Lengths of a burst; None: the device's usual ones.
        epochs: Of a supervised training; 0: it is not trained.
        seeds: Of supervised trainings.
        streams: Seeds of class-incremental streams; 0: none.
        rehearsed: Samples that go through the model for each one of a stream.
    """

    name: str
    workload: WorkloadSpec
    batches: tuple[int, ...] = _BATCHES
    repeats: int = 2
    bursts: int = TUNING_BURSTS
    plan: BurstPlan | None = None
    epochs: int = 0
    seeds: int = 5
    streams: int = 0
    rehearsed: int = 32


def subjects(folder: Path, *, quick: bool) -> tuple[Subject, ...]:
    """All subjects, of which those with epochs are trained.

    Args:
        folder: For the file of enlarged digits.
        quick: Few batch sizes, short bursts, small pictures and a small transformer: minutes in all.
    """
    if quick:
        return _quick()
    digits = WorkloadSpec("mobilenetv2", {"image_size": PIXELS}, str(enlarged_digits(folder / f"digits-{PIXELS}.pt")))
    return (
        Subject("digits-cnn", WorkloadSpec("digits-cnn"), repeats=3, epochs=20, seeds=10, streams=10),
        Subject("char-transformer", WorkloadSpec("char-transformer")),
        Subject("char-transformer-small", WorkloadSpec("char-transformer", _SMALL), epochs=6),
        Subject("mobilenetv2-digits", digits, epochs=10),
        Subject("mobilenetv2-32", WorkloadSpec("mobilenetv2", {"image_size": 32})),
        Subject("resnet18-32", WorkloadSpec("resnet18", {"image_size": 32})),
        Subject("mobilenetv2-224", WorkloadSpec("mobilenetv2"), repeats=1),
        Subject("resnet18-224", WorkloadSpec("resnet18"), repeats=1),
    )


def _quick() -> tuple[Subject, ...]:
    short = BurstPlan(min_s=0.3, max_s=0.5, tolerance=0.1)

    def subject(name: str, workload: WorkloadSpec, *batches: int, epochs: int = 0, streams: int = 0) -> Subject:
        return Subject(name, workload, batches, 1, 4, short, epochs, streams=streams, rehearsed=8)

    small = {"image_size": 16}
    return (
        subject("digits-cnn", WorkloadSpec("digits-cnn"), 1, 8, 32, 64, epochs=6, streams=5),
        subject("char-transformer-small", WorkloadSpec("char-transformer", _SMALL), 1, 64, 128),
        subject("mobilenetv2-16", WorkloadSpec("mobilenetv2", small), 1, 32, 128),
        subject("resnet18-16", WorkloadSpec("resnet18", small), 1, 32, 128),
    )


def enlarged_digits(path: Path) -> Path:
    """Write the digits as pictures of `PIXELS` x `PIXELS`, three equal channels, unless they are there.

    Returns:
        The absolute path.
    """
    workload = load("digits-cnn")

    def enlarge(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        large = functional.interpolate(images, size=(PIXELS, PIXELS), mode="bilinear")
        return large.repeat(1, 3, 1, 1), labels

    if not path.exists():
        parts = {"train": workload.train_data().tensors, "test": workload.test_data().tensors}
        torch.save({name: enlarge(*tensors) for name, tensors in parts.items()}, path)
    return path.absolute()
