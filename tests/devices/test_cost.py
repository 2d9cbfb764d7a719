"""Counting the cost of a training step."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import nn

from devices.agent import workloads
from devices.cost import Affine, count_step, count_workload, workload_info
from devices.device import WorkloadSpec
from devices.errors import InputError


class LinearWorkload:
    """x (batch, 4) -> 3 numbers; everything about it can be counted by hand."""

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU())

    def loss(self, model: nn.Module, batch: torch.Tensor) -> tuple[torch.Tensor, int]:
        return model(batch).sum(), len(batch)

    def optimizer(self, params: Iterable[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, momentum=0.9)

    def example_input(self, batch_size: int) -> torch.Tensor:
        return torch.zeros(batch_size, 4)


def test_affine() -> None:
    assert Affine(fixed=2.0, per_sample=3.0).at(4) == 14.0


def test_a_linear_layer_is_counted_as_by_hand() -> None:
    cost = count_workload(LinearWorkload())
    # Forward and the gradient of the weight, a multiply-add counts two; the input needs no gradient.
    assert cost.flops == Affine(fixed=0, per_sample=2 * (2 * 4 * 3))
    assert cost.parameter_bytes == cost.gradient_bytes == cost.optimizer_bytes == 4 * 4 * 3
    assert cost.input_bytes == 4 * 4
    # The product keeps its input, the rectifier its output.
    assert cost.activation_bytes == Affine(fixed=0, per_sample=4 * (4 + 3))
    assert cost.update_kernels >= 2  # momentum, then weights
    assert cost.update_traffic_bytes >= 5 * cost.parameter_bytes  # gradient, momentum and weights, the latter two twice
    assert cost.kernels >= 4  # product, rectifier, sum, and their gradients


def test_resnet18_has_its_known_size_and_work() -> None:
    cost = count_step(WorkloadSpec("resnet18"))
    # 1.81 G multiply-adds forward, twice that backward, less the first layer's input gradient (118 M).
    assert cost.flops.at(16) / 16 == pytest.approx(2 * (3 * 1.814e9 - 0.118e9), rel=0.01)
    assert cost.gradient_bytes == pytest.approx(4 * 11.18e6, rel=0.005)
    assert cost.optimizer_bytes == cost.gradient_bytes
    assert 20e6 < cost.activation_bytes.per_sample < 30e6
    assert cost.traffic_bytes.per_sample > 3 * cost.activation_bytes.per_sample
    assert cost.input_bytes == 3 * 224 * 224 * 4 + 8
    assert 100 < cost.kernels < 400


@pytest.mark.parametrize("name", workloads.NAMES)
def test_every_named_workload_has_a_cost_and_a_reference(name: str) -> None:
    for value in dataclasses.astuple(count_step(WorkloadSpec(name))):
        fixed, per_sample = value if isinstance(value, tuple) else (0, value)
        assert 0 <= fixed < math.inf
        assert 0 < per_sample < math.inf
    reference = workload_info(WorkloadSpec(name))
    assert reference.batch >= 1
    assert 0 < reference.learning_rate < 1
    assert reference.optimizer == ("AdamW" if name == "char-transformer" else "SGD")


def test_the_transformer_has_its_known_work() -> None:
    cost = count_step(WorkloadSpec("char-transformer"))
    # 12 x 256^2 weights a layer and the head; attention to 64 positions twice; forward once and backward twice.
    weights = 6 * 12 * 256**2 + 256 * 256
    assert cost.flops.per_sample == pytest.approx(3 * 2 * 64 * (weights + 6 * 2 * 64 * 256), rel=0.01)
    assert cost.input_bytes == 2 * 64 * 8
    assert cost.activation_bytes.fixed < 0.01 * cost.parameter_bytes  # weights are not kept twice
    assert cost.update_kernels < 20
    assert cost.optimizer_bytes == pytest.approx(2 * cost.gradient_bytes, rel=0.001)


def test_depthwise_convolutions_are_counted_by_their_groups() -> None:
    cost = count_step(WorkloadSpec("mobilenetv2"))
    # 300 M multiply-adds forward (as published), twice that backward.
    assert cost.flops.per_sample == pytest.approx(3 * 2 * 300e6, rel=0.02)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2"])
def test_small_images_cost_less(name: str) -> None:
    large, small = (count_step(WorkloadSpec(name, {"image_size": size})) for size in (224, 32))
    assert small.activation_bytes.per_sample < 0.3 * large.activation_bytes.per_sample
    assert small.parameter_bytes == pytest.approx(large.parameter_bytes, rel=0.01)


def test_a_count_is_made_once() -> None:
    assert count_step(WorkloadSpec("resnet18", {"image_size": 32})) is count_step(
        WorkloadSpec("resnet18", {"image_size": 32}, data="/elsewhere")
    )


def test_unknown_workloads_are_the_users_to_mend() -> None:
    with pytest.raises(InputError, match="resnet18"):
        count_step(WorkloadSpec("resnet19"))
    with pytest.raises(InputError, match="image_size"):
        count_step(WorkloadSpec("resnet18", {"size": 32}))


USERS = """
import torch

class Mine:
    reference_batch, reference_lr = 24, 0.25
    def __init__(self, width): self.width = width
    def model(self): return torch.nn.Linear(self.width, 1, bias=False)
    def loss(self, model, batch): return model(batch["x"]).sum(), len(batch["x"])
    def optimizer(self, params, lr): return torch.optim.Adam(params, lr=lr)
    def train_data(self): return [{"x": torch.zeros(self.width)}] * 99
    def test_data(self): return None
    def example_input(self, batch_size): return {"x": torch.zeros(batch_size, self.width)}

class Reading(Mine):
    def loss(self, model, batch):
        scores = model(batch["x"])
        return scores.sum() * (1 if scores.max().item() > 0 else 2), len(scores)

class WithoutOptimizer(Mine):
    def optimizer(self, params, lr): raise RuntimeError("not today")

def make(width=4): return Mine(width)
def on_data(data): return Mine(len(data))
def reading(): return Reading(4)
def without_optimizer(): return WithoutOptimizer(4)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "mine.py"
    path.write_text(USERS)
    return path


def test_a_users_workload_is_counted(mine: Path) -> None:
    spec = WorkloadSpec(f"{mine}:make", {"width": 6})
    assert count_step(spec).gradient_bytes == 4 * 6
    assert count_step(spec).input_bytes == 4 * 6
    assert count_step(spec) is count_step(spec)
    assert workload_info(spec).to_reference() == {"batch": 24, "learning_rate": 0.25, "optimizer": "Adam"}
    assert count_step(WorkloadSpec(f"{mine}:on_data", data="/twelve/abcd")).gradient_bytes == 4 * 12


def test_a_changed_file_is_counted_anew(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = WorkloadSpec(f"{mine}:make")
    monkeypatch.chdir(mine.parent)
    assert count_step(spec).gradient_bytes == count_step(WorkloadSpec("mine.py:make")).gradient_bytes == 4 * 4
    before = mine.stat()
    mine.write_text(USERS.replace("width=4", "width=5"))  # the same size
    os.utime(mine, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert count_step(spec).gradient_bytes == count_step(WorkloadSpec("mine.py:make")).gradient_bytes == 4 * 5
    monkeypatch.chdir("/")
    with pytest.raises(InputError, match=r"no file 'mine.py'"):
        count_step(WorkloadSpec("mine.py:make"))


def test_what_cannot_run_without_numbers_is_the_users_to_mend(mine: Path) -> None:
    with pytest.raises(InputError, match=r"reading' cannot be counted on torch's meta device: .*item.*\(line \d+\)"):
        count_step(WorkloadSpec(f"{mine}:reading"))
    with pytest.raises(InputError, match=r"cannot make its optimizer: RuntimeError: not today \(line \d+\)"):
        workload_info(WorkloadSpec(f"{mine}:without_optimizer"))
    with pytest.raises(InputError, match="takes no argument 'depth'"):
        workload_info(WorkloadSpec(f"{mine}:make", {"depth": 3}))


def test_torch_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, devices.emulated, devices.cost, devices.agent.workloads; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
