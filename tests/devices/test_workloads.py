"""The named workloads, and the user's own."""

from __future__ import annotations

import ast
import gzip
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from devices.agent import workloads

SMALL: dict[str, dict[str, Any]] = {
    "resnet18": {"image_size": 8, "num_classes": 4},
    "mobilenetv2": {"image_size": 8, "num_classes": 4},
    "digits-cnn": {},
    "char-transformer": {"layers": 2, "heads": 2, "embedding": 16, "sequence": 8},
}
IMAGE_NETS = ("resnet18", "mobilenetv2")


@pytest.fixture(params=workloads.NAMES)
def small(request: pytest.FixtureRequest) -> Any:
    """Every workload, as small as it gets."""
    return workloads.load(request.param, SMALL[request.param])


def first_batch(workload: Any, size: int) -> Any:
    return next(iter(DataLoader(workload.train_data(), batch_size=size)))


def test_example_inputs_look_like_the_data(small: Any) -> None:
    for made, real in zip(small.example_input(3), first_batch(small, 3), strict=True):
        assert made.shape == real.shape
        assert made.dtype == real.dtype
    test_batch = next(iter(DataLoader(small.test_data(), batch_size=3)))
    assert [part.shape for part in test_batch] == [part.shape for part in small.example_input(3)]


def test_losses_are_sums_with_their_counts(small: Any) -> None:
    torch.manual_seed(0)
    model = small.model()
    inputs, targets = first_batch(small, 5)
    total, count = small.loss(model, (inputs, targets))
    assert count == targets.numel()
    assert total.shape == ()
    scores = model(inputs).flatten(0, targets.dim() - 1)
    mean = torch.nn.functional.cross_entropy(scores, targets.flatten())
    assert total.item() / count == pytest.approx(mean.item(), rel=1e-4)
    correct, judged = small.evaluate(model, (inputs, targets))
    assert 0 <= correct <= judged == count
    assert correct == (scores.argmax(1) == targets.flatten()).sum()


def test_its_reference_is_a_batch_and_a_rate(small: Any) -> None:
    assert small.reference_batch >= 1
    assert small.reference_lr > 0
    assert small.reference_batch <= len(small.train_data())


def test_training_lowers_the_loss_with_finite_gradients(small: Any) -> None:
    torch.manual_seed(0)
    batch = first_batch(small, 8)
    model = small.model()
    optimizer = small.optimizer(model.parameters(), 0.02)
    losses: list[float] = []
    while len(losses) < 60 and (not losses or losses[-1] > 0.7 * losses[0]):
        total, count = small.loss(model, batch)
        losses.append(total.item() / count)
        optimizer.zero_grad()
        (total / count).backward()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())
        optimizer.step()
    assert losses[-1] <= 0.7 * losses[0]


def test_a_seed_makes_it_repeatable(small: Any) -> None:
    losses = []
    for _ in range(2):
        torch.manual_seed(3)
        model = small.model()
        optimizer = small.optimizer(model.parameters(), small.reference_lr)
        for batch in itertools.islice(DataLoader(small.train_data(), batch_size=4, shuffle=True), 2):
            total, count = small.loss(model, batch)
            optimizer.zero_grad()
            (total / count).backward()
            optimizer.step()
            losses.append(total.item())
    assert losses[:2] == losses[2:]


@pytest.mark.parametrize("name", workloads.NAMES)
def test_no_test_item_is_trained_on(name: str) -> None:
    workload = workloads.load(name, SMALL[name] if name in IMAGE_NETS else {})
    train, test = workload.train_data(), workload.test_data()
    seen = {train[i][0].numpy().tobytes() for i in range(len(train))}
    assert not [i for i in range(len(test)) if test[i][0].numpy().tobytes() in seen]


def test_data_end_where_they_say(small: Any) -> None:
    for data in (small.train_data(), small.test_data()):
        data[len(data) - 1]
        with pytest.raises(IndexError):
            data[len(data)]


def test_synthetic_data_are_repeatable() -> None:
    first, again = (workloads.load("resnet18", {"image_size": 32}) for _ in range(2))
    assert torch.equal(first.train_data()[5][0], again.train_data()[5][0])
    assert not torch.equal(first.train_data()[5][0], first.test_data()[5][0])


@pytest.mark.parametrize(("size", "expected"), [(32, 32), (64, 64), (224, 56)])
def test_small_images_keep_their_resolution_in_the_stem(size: int, expected: int) -> None:
    workload = workloads.load("resnet18", {"image_size": size})
    wide = workloads.load("mobilenetv2", {"image_size": size})
    images = workload.example_input(1)[0]
    with torch.no_grad():
        assert workload.model().stem(images).shape[-1] == expected
        model = wide.model()
        assert model.blocks(model.stem(images)).shape[-1] == (size // 8 if size <= 64 else size // 32)


@pytest.mark.parametrize(("name", "published"), [("resnet18", 11_689_512), ("mobilenetv2", 3_504_872)])
def test_networks_have_their_published_number_of_parameters(name: str, published: int) -> None:
    model = workloads.load(name, {"num_classes": 1000}).model()
    assert sum(p.numel() for p in model.parameters()) == published


def test_the_digits_are_learnt_in_five_epochs() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    workload = workloads.load("digits-cnn")
    model = workload.model()
    optimizer = workload.optimizer(model.parameters(), workload.reference_lr)
    try:
        for _ in range(5):
            for batch in DataLoader(workload.train_data(), workload.reference_batch, shuffle=True):
                total, count = workload.loss(model, batch)
                optimizer.zero_grad()
                (total / count).backward()
                optimizer.step()
    finally:
        torch.set_num_threads(threads)
    with torch.no_grad():
        correct, count = workload.evaluate(model, next(iter(DataLoader(workload.test_data(), 360))))
    assert count == 360
    assert correct / count >= 0.95


def test_each_digit_has_its_share_of_both_parts() -> None:
    workload = workloads.load("digits-cnn")
    train, test = (torch.bincount(data.tensors[1]) for data in (workload.train_data(), workload.test_data()))
    assert (int(train.sum()), int(test.sum())) == (1437, 360)
    assert ((test / (train + test) - 360 / 1797).abs() < 0.01).all()
    images = workload.train_data().tensors[0]
    assert (images.min(), images.max()) == (0, 1)


def test_data_files_are_what_their_scripts_write() -> None:
    pytest.importorskip("sklearn")
    from experiments import make_digits, make_prose

    assert gzip.decompress(make_digits.OUT.read_bytes()) == make_digits.encode()
    assert make_prose.OUT.read_text(encoding="ascii") == make_prose.write_prose(make_prose.LENGTH)


def test_the_text_is_split_once_and_successors_follow(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(200)))
    workload = workloads.load("char-transformer", {"sequence": 8}, data=str(path))
    train, test = workload.train_data(), workload.test_data()
    characters, successors = train[len(train) - 1]
    assert successors.tolist() == [c + 1 for c in characters.tolist()]
    assert successors[-1] < 180 <= test[0][0][0]
    assert [c[0].item() for c, _ in (test[0], test[1])] == [180, 188]
    assert [c[0].item() for c, _ in (train[0], train[1])] == [0, 2]
    with pytest.raises(ValueError, match="too short"):
        workloads.load("char-transformer", {"sequence": 20}, data=str(path)).train_data()


def test_a_character_is_predicted_without_those_to_come() -> None:
    torch.manual_seed(0)
    workload = workloads.load("char-transformer", SMALL["char-transformer"])
    model = workload.model()
    characters = first_batch(workload, 2)[0]
    changed = characters.clone()
    changed[:, 5] += 1
    same = (model(characters) == model(changed)).all(-1)
    assert same[:, :5].all()
    assert not same[:, 5:].any()


@pytest.mark.parametrize("name", IMAGE_NETS)
def test_stored_images_replace_the_synthetic_ones(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.pt"
    images, labels = torch.randn(5, 3, 32, 32), torch.arange(5)
    torch.save({"train": (images, labels)}, path)
    workload = workloads.load(name, {"image_size": 32}, data=str(path))
    assert len(workload.train_data()) == 5
    assert torch.equal(workload.train_data()[2][0], images[2])
    assert workload.test_data() is None
    with pytest.raises(ValueError, match="images are"):
        workloads.load(name, {"image_size": 64}, data=str(path)).train_data()
    with pytest.raises(ValueError, match="labels go from 0 to 4"):
        workloads.load(name, {"image_size": 32, "num_classes": 4}, data=str(path)).train_data()
    for stored, words in (
        ({"test": (images, labels)}, "no part 'train'"),
        ([images, labels], "no stored data set"),
        ({"train": (images, labels[:3])}, "as many images as labels"),
        ({"train": (images.byte(), labels)}, "floating point"),
    ):
        torch.save(stored, path)
        with pytest.raises(ValueError, match=words):
            workload.train_data()


@pytest.mark.parametrize("name", workloads.NAMES)
def test_data_that_cannot_be_read_are_named(name: str, tmp_path: Path) -> None:
    absent, other = tmp_path / "absent", tmp_path / "other"
    other.write_bytes(b"none")
    for path in (absent, other):
        with pytest.raises(ValueError, match=path.name):
            workloads.load(name, data=str(path)).train_data()


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("resnet19", {}, "resnet18, mobilenetv2, digits-cnn, char-transformer; .* FILE.py:FACTORY"),
        ("digits_cnn", {}, "digits-cnn"),
        ("resnet18", {"size": 32}, "image_size"),
        ("resnet18", {"data": "x"}, "image_size"),
        ("resnet18", {"image_size": "32"}, "whole number"),
        ("mobilenetv2", {"image_size": 4}, "whole number"),
        ("resnet18", {"num_classes": True}, "num_classes"),
        ("digits-cnn", {"image_size": 8}, "takes: none"),
        ("char-transformer", {"heads": 3}, "multiple of heads"),
        ("char-transformer", {"layers": 0}, "layers"),
    ],
)
def test_errors_say_what_there_is(name: str, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        workloads.load(name, args)


def test_the_board_can_parse_them() -> None:
    for path in Path(workloads.__file__).parent.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
