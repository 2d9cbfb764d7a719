"""The agent, its trainer and the workloads keep to what Python 3.6 knows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from devices.archive import AGENT_FOLDER

FILES = sorted(AGENT_FOLDER.rglob("*.py"))
TORCH_ONLY = ("trainer", "workloads")


# `.long()` of a tensor is no `long` of Python 2
def _vermin(*arguments: object) -> subprocess.CompletedProcess[str]:
    options = ("--target=3.6-", "--no-tips", "--violations", "--exclude=long")
    command = [str(word) for word in (Path(sys.executable).with_name("vermin"), *options, *arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_vermin_finds_nothing_newer() -> None:
    done = _vermin("--eval-annotations", AGENT_FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "newer", ["if (n := 1): pass", "from dataclasses import dataclass", "import os\nos.waitstatus_to_exitcode(0)"]
)
def test_vermin_finds_what_is_newer(newer: str, tmp_path: Path) -> None:
    (tmp_path / "newer.py").write_text(newer + "\n")
    assert _vermin(tmp_path / "newer.py").returncode != 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(AGENT_FOLDER)))
def test_imports_the_standard_library_and_in_the_trainer_torch(path: Path) -> None:
    allowed = set(sys.stdlib_module_names)
    if path.relative_to(AGENT_FOLDER).parts[0] in TORCH_ONLY:
        allowed |= {"torch"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").partition(".")[0] in allowed
