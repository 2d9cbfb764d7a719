"""Counting the cost of a training step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest
import torch
from torch import nn

from devices.cost import Affine, count_step, count_workload
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


def test_small_images_cost_less() -> None:
    large, small = (count_step(WorkloadSpec("resnet18", {"image_size": size})) for size in (224, 32))
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


def test_torch_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, devices.emulated, devices.cost, devices.agent.workloads; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
