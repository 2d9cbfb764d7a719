"""The named workloads."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch

from devices.agent import workloads


@pytest.fixture(params=workloads.NAMES)
def small(request: pytest.FixtureRequest) -> Any:
    """Every workload, as small as it gets."""
    return workloads.load(request.param, {"image_size": 8, "num_classes": 4})


def test_every_workload_keeps_the_contract(small: Any) -> None:
    torch.manual_seed(0)
    model = small.model()
    images, labels = small.example_input(3)
    total, count = small.loss(model, (images, labels))
    assert count == 3
    assert total.shape == ()
    mean = torch.nn.functional.cross_entropy(model(images), labels)
    assert total.item() / count == pytest.approx(mean.item(), rel=1e-4)
    correct, count = small.evaluate(model, (images, labels))
    assert 0 <= correct <= count == 3
    assert small.reference_batch >= 1
    assert small.reference_lr > 0
    image, label = small.train_data()[0]
    assert image.shape == images.shape[1:]
    assert image.dtype == images.dtype
    assert 0 <= label < 4


def test_training_lowers_the_loss(small: Any) -> None:
    torch.manual_seed(0)
    data = small.train_data()
    images = torch.stack([data[i][0] for i in range(8)])
    labels = torch.tensor([data[i][1] for i in range(8)])
    model = small.model()
    optimizer = small.optimizer(model.parameters(), 0.02)
    losses = []
    for _ in range(4):
        total, count = small.loss(model, (images, labels))
        losses.append(total.item() / count)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_synthetic_data_are_repeatable_and_end() -> None:
    first, again = (workloads.load("resnet18", {"image_size": 32}) for _ in range(2))
    assert torch.equal(first.train_data()[5][0], again.train_data()[5][0])
    assert not torch.equal(first.train_data()[5][0], first.test_data()[5][0])
    with pytest.raises(IndexError):
        first.train_data()[len(first.train_data())]


def test_small_images_keep_their_resolution_in_the_stem() -> None:
    for size, expected in ((32, 32), (64, 64), (224, 56)):
        workload = workloads.load("resnet18", {"image_size": size})
        model = workload.model()
        with torch.no_grad():
            assert model.stem(workload.example_input(1)[0]).shape[-1] == expected


def test_resnet18_has_its_published_number_of_parameters() -> None:
    model = workloads.load("resnet18", {"num_classes": 1000}).model()
    assert sum(p.numel() for p in model.parameters()) == 11_689_512


def test_stored_data_replace_the_synthetic_ones(tmp_path: Path) -> None:
    path = tmp_path / "data.pt"
    images, labels = torch.randn(5, 3, 32, 32), torch.arange(5)
    torch.save({"train": (images, labels)}, path)
    workload = workloads.load("resnet18", {"image_size": 32}, data=str(path))
    assert len(workload.train_data()) == 5
    assert torch.equal(workload.train_data()[2][0], images[2])
    assert workload.test_data() is None
    with pytest.raises(ValueError, match="images"):
        workloads.load("resnet18", {"image_size": 64}, data=str(path)).train_data()
    torch.save({"test": (images, labels)}, path)
    with pytest.raises(ValueError, match="train"):
        workload.train_data()


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("resnet19", {}, "resnet18"),
        ("resnet18", {"size": 32}, "image_size"),
        ("resnet18", {"data": "x"}, "image_size"),
        ("resnet18", {"image_size": "32"}, "whole number"),
        ("resnet18", {"image_size": 4}, "whole number"),
        ("resnet18", {"num_classes": True}, "num_classes"),
    ],
)
def test_errors_say_what_there_is(name: str, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        workloads.load(name, args)


def test_the_board_can_parse_them() -> None:
    for path in Path(workloads.__file__).parent.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
