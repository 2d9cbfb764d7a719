"""The named workloads, and the user's own."""

from __future__ import annotations

import ast
import gzip
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
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


@pytest.fixture
def own_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What users' files import and append to the path goes when the test ends."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


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


def test_the_digits_are_learnt_in_seconds() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    workload = workloads.load("digits-cnn")
    model = workload.model()
    optimizer = workload.optimizer(model.parameters(), workload.reference_lr)
    begin = time.perf_counter()
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
    assert time.perf_counter() - begin < 10


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


WORKLOAD = """
import helper_of_mine

class Mine:
    reference_batch = 16
    reference_lr = 0.1
    def __init__(self, width): self.width = width
    def model(self): return helper_of_mine.linear(self.width)
    def loss(self, model, batch): return model(batch).sum(), len(batch)
    def optimizer(self, params, lr): raise NotImplementedError
    def train_data(self): return []
    def test_data(self): return None
    def example_input(self, batch_size): raise NotImplementedError

class Lacking(Mine):
    loss = None
    train_data = 3
    reference_lr = None

def make(width=4): return Mine(width)
def with_data(data): made = Mine(1); made.data = data; return made
def other_default(data="own"): return with_data(data)
def anything(**given): made = Mine(1); made.given = given; return made
def needs(width, depth): return Mine(width)
def raises(): raise KeyError("no such layer")
def leaves(): raise SystemExit(3)
def nothing(): pass
def lacking(): return Lacking(1)
def odd(key, value):
    made = Mine(1)
    setattr(made, key, value)
    return made
number = 7
"""


@pytest.fixture
def mine(tmp_path: Path, own_imports: None) -> Path:
    """A user's file, with a neighbour that it imports and one that a module of others is named like."""
    folder = tmp_path / "my code"
    folder.mkdir()
    (folder / "helper_of_mine.py").write_text("import torch, colorsys\ndef linear(n): return torch.nn.Linear(n, 1)\n")
    (folder / "colorsys.py").write_text("raise RuntimeError('hides the module of the same name')")
    path = folder / "mine.py"
    path.write_text(WORKLOAD)
    return path


def test_a_users_file_is_a_workload(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workloads.load(f"{mine}:make").width == 4
    assert workloads.load(f"{mine}:make", {"width": 7}).model().in_features == 7
    assert workloads.load(f"{mine}:Mine", {"width": 3}).width == 3
    monkeypatch.chdir(mine.parent)
    assert workloads.load("mine.py:make").width == 4
    assert workloads.load("./mine.py:make").width == 4
    assert sys.path[-1] == str(mine.parent)
    assert sys.path.count(str(mine.parent)) == 1
    assert "mine" not in sys.modules
    assert not list(mine.parent.glob("__pycache__/mine.*"))


def test_a_changed_file_is_read_anew(mine: Path) -> None:
    for width in (5, 6):  # the same size, and within one second
        mine.write_text(WORKLOAD.replace("width=4", f"width={width}"))
        assert workloads.load(f"{mine}:make").width == width


def test_data_go_only_to_a_factory_that_takes_them(mine: Path) -> None:
    assert workloads.load(f"{mine}:with_data", data="x").data == "x"
    assert workloads.load(f"{mine}:with_data").data is None
    assert workloads.load(f"{mine}:other_default").data == "own"
    assert workloads.load(f"{mine}:anything", {"a": 1}, data="x").given == {"a": 1, "data": "x"}
    assert workloads.load(f"{mine}:anything").given == {}
    with pytest.raises(ValueError, match="takes no data, but 'x' was given"):
        workloads.load(f"{mine}:make", data="x")


def test_a_users_module_is_a_workload(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(mine.parent / "package"))
    (mine.parent / "package").mkdir()
    (mine.parent / "package" / "module_of_mine.py").write_text(WORKLOAD.replace("import helper_of_mine", ""))
    assert workloads.load("module_of_mine:make", {"width": 2}).width == 2
    with pytest.raises(ValueError, match="module 'module_of_mine' has no factory 'absent'; there are: Lacking, Mine"):
        workloads.load("module_of_mine:absent")


@pytest.mark.parametrize(
    ("factory", "args", "words"),
    [
        ("absent", {}, r"'.*mine.py' has no factory 'absent'; there are: .*make.*; write a function absent\("),
        ("number", {}, "'number' of '.*mine.py' is of type int and cannot be called"),
        ("", {}, "names no factory; write FILE.py:FACTORY"),
        ("raises", {}, r"raised KeyError: 'no such layer' \(line \d+\)"),
        ("leaves", {}, r"raised SystemExit: 3"),
        ("make", {"depth": 2}, "takes no argument 'depth'; it takes: width"),
        ("with_data", {"data": "x"}, "takes no argument 'data'"),
        ("needs", {"width": 2}, "needs a value for 'depth'; write --workload-arg depth=VALUE"),
        ("nothing", {}, r"type NoneType\) is no workload: it lacks model\(\), loss\(model, batch\), .*reference_lr"),
        ("lacking", {}, r"lacks loss\(model, batch\), train_data\(\), reference_lr$"),
        ("odd", {"key": "reference_batch", "value": 2.5}, "reference_batch must be a whole number >= 1, not 2.5"),
        ("odd", {"key": "reference_lr", "value": float("nan")}, "reference_lr must be a positive number, not nan"),
        ("odd", {"key": "evaluate", "value": 1}, "evaluate must be a method"),
    ],
)
def test_what_is_wrong_with_a_factory_is_said(mine: Path, factory: str, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        workloads.load(f"{mine}:{factory}", args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "import absent_of_mine\n",
            r"'.*bad.py' cannot be imported: ModuleNotFoundError: .*'absent_of_mine' \(line 1\)",
        ),
        ("\n\nx = undefined\n", r"NameError: .*undefined.* \(line 3\)"),
        ("def make(:\n", "SyntaxError"),
        ("raise SystemExit('usage: bad.py FILE')\n", "SystemExit: usage"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
    ],
)
def test_what_a_file_raises_is_said(tmp_path: Path, own_imports: None, text: str, words: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    before = set(sys.modules)
    with pytest.raises(ValueError, match=words) as caught:
        workloads.load(f"{path}:make")
    assert "\n" not in str(caught.value)
    assert not [name for name in set(sys.modules) - before if name.startswith("_workload_file_")]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("absent.py:make", r"no file 'absent.py' \(looked for /.*absent.py\); write FILE.py:FACTORY"),
        ("absent.py", "names no factory"),
        ("folder/make", "names no factory"),
        ("folder.py:make", "no Python file"),
        (":make", "names no file or module"),
        ("absent_of_mine:make", "module 'absent_of_mine' cannot be imported: ModuleNotFoundError"),
        (".relative:make", "module '.relative' cannot be imported"),
    ],
)
def test_what_a_specification_lacks_is_said(tmp_path: Path, own_imports: None, spec: str, words: str) -> None:
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ValueError, match=words):
        workloads.load(spec)


def test_the_board_can_parse_them() -> None:
    for path in Path(workloads.__file__).parent.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_loading_a_file_needs_nothing_but_the_standard_library(mine: Path) -> None:
    mine.write_text(WORKLOAD.replace("import helper_of_mine", "import sys; assert 'torch' not in sys.modules"))
    code = f"from workloads import load; assert load({f'{mine}:make'!r}).width == 4"
    folder = Path(workloads.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(folder)})
