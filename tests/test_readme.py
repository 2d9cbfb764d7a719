"""The commands of the README run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
COMMANDS = [
    re.sub(r"\s+#.*", "", line.removeprefix("$ "))
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ tune")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "experiments").symlink_to(ROOT / "experiments")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TUNER_STORE": str(folder / "studies.db")}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "show" in command or done.stdout.startswith("source: ")


def test_the_python_example(folder: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], cwd=folder, capture_output=True, text=True, check=True)
    assert "gpu_freq_mhz" in done.stdout


def test_every_block_that_does_not_run_says_why() -> None:
    for info in re.findall(r"```console(.*)\n", README):
        assert info == "" or re.fullmatch(r" no-run: .+", info)


def test_its_pictures_are_there() -> None:
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / picture).is_file()
