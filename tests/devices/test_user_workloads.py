"""Workloads that users bring: `FILE.py:FACTORY` and `MODULE:FACTORY`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devices.agent import workloads


@pytest.fixture
def own_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What users' files import and append to the path goes when the test ends."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


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


def test_loading_a_file_needs_nothing_but_the_standard_library(mine: Path) -> None:
    mine.write_text(WORKLOAD.replace("import helper_of_mine", "import sys; assert 'torch' not in sys.modules"))
    code = f"from workloads import load; assert load({f'{mine}:make'!r}).width == 4"
    folder = Path(workloads.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(folder)})
