"""Workloads that train in microseconds, and what their tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from devices.agent.trainer.training import train
from devices.training import TrainingPlan

CPU = torch.device("cpu")


class Items(torch.utils.data.Dataset[Any]):
    """The items of tensors, one by one, as a data set of a user's gives them."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> Any:
        return tuple(tensor[index] for tensor in self.tensors)


class Tiny:
    """Points of two classes, in float64; `items`: fetched one by one."""

    reference_batch = 8
    reference_lr = 0.1

    def __init__(self, train: int = 20, test: int = 10, dropout: float = 0.0, items: bool = False) -> None:
        self.sizes = (train, test)
        self.dropout = dropout
        self.kind: Any = Items if items else torch.utils.data.TensorDataset
        self.make: Callable[[Iterable[Any], float], torch.optim.Optimizer] = lambda params, lr: torch.optim.SGD(
            params, lr=lr, momentum=0.9
        )

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(self.dropout), nn.Linear(6, 2)).double()

    def loss(self, model: nn.Module, batch: Any) -> Any:
        points, labels = batch
        return functional.cross_entropy(model(points), labels, reduction="sum"), len(labels)

    def evaluate(self, model: nn.Module, batch: Any) -> Any:
        points, labels = batch
        return int((model(points).argmax(1) == labels).sum()), len(labels)

    def optimizer(self, params: Iterable[Any], lr: float) -> torch.optim.Optimizer:
        return self.make(params, lr)

    def train_data(self) -> Any:
        return self._data(self.sizes[0], 1)

    def test_data(self) -> Any:
        return self._data(self.sizes[1], 2) if self.sizes[1] else None

    def example_input(self, batch_size: int) -> Any:
        return torch.zeros(batch_size, 3).double(), torch.zeros(batch_size, dtype=torch.long)

    def _data(self, count: int, seed: int) -> Any:
        points = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed)).double()
        return self.kind(points, (points.sum(1) > 0).long())


class Tokens(Tiny):
    """Sequences of different lengths, padded with -1: the loss counts tokens, not sequences."""

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5)).double()

    def loss(self, model: nn.Module, batch: Any) -> Any:
        tokens, following = batch
        scores = model(tokens).flatten(0, 1)
        total = functional.cross_entropy(scores, following.flatten(), reduction="sum", ignore_index=-1)
        return total, (following >= 0).sum()

    def evaluate(self, model: nn.Module, batch: Any) -> Any:
        tokens, following = batch
        return (model(tokens).argmax(2) == following).sum(), (following >= 0).sum()

    def _data(self, count: int, seed: int) -> Any:
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(5, (count, 7), generator=generator)
        following = (tokens + 1) % 5
        for row, length in enumerate(torch.randint(1, 8, (count,), generator=generator).tolist()):
            following[row, length:] = -1
        return self.kind(tokens, following)


class Run:
    """Trainings of a workload in a folder; `events` are those of the last."""

    def __init__(self, folder: Path, workload: Any | None = None) -> None:
        self.folder = folder
        self.workload = workload or Tiny()
        self.events: list[dict[str, Any]] = []

    def __call__(self, stop_at: int | None = None, tell: Any = None, **plan: Any) -> dict[str, Any]:
        """Train by a plan that differs in `plan`; stopped when `stop_at` steps were made in this run."""
        self.events = []
        asked = 0

        def should_stop() -> bool:
            nonlocal asked
            asked += 1
            return stop_at is not None and asked > stop_at

        return train(self.workload, plan_json(self.folder, **plan), CPU, tell or self.events.append, should_stop)

    def phases(self) -> list[str]:
        return [event["phase"] for event in self.events]

    def notes(self) -> list[str]:
        return [event["text"] for event in self.events if event["phase"] == "note"]

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def plan_json(folder: Path, **changes: Any) -> dict[str, Any]:
    """A plan of 7 steps of 8 in micro-batches of 3, warm-up included."""
    values: dict[str, Any] = {
        "effective_batch": 8,
        "learning_rate": 0.2,
        "warm_up_from": 0.05,
        "warm_up_steps": 2,
        "steps": 7,
        "seed": 3,
        "checkpoint_dir": str(folder),
        "identity": {"workload": {"spec": "tiny"}},
    }
    micro_batch = changes.pop("micro_batch", 3)
    return TrainingPlan(setting={"batch_size": micro_batch}, **{**values, **changes}).to_json()


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = torch.load(path)
    return weights
