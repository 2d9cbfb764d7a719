from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

HEAVY = {"torch", "ax", "botorch", "gpytorch", "pandas", "sqlalchemy", "numpy", "plotly", "scipy", "rich"}


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["profile", "import", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom tuner.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as e: assert not e.code\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert loaded & HEAVY == set()


def test_every_command_has_help() -> None:
    from tuner.cli.main import COMMANDS

    tune = Path(sys.executable).with_name("tune")
    for name, (_, text) in COMMANDS.items():
        done = subprocess.run([tune, name, "--help"], capture_output=True, text=True, check=True)
        assert "Usage: tune" in done.stdout
        assert text.endswith(".")


def test_a_users_file_that_hides_our_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "devices.py").write_text("raise SystemExit('the user file ran')\n")
    hidden = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(1, {str(ROOT)!r}); import tuner"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert hidden.returncode == 1
    assert str(tmp_path / "devices.py") in hidden.stderr
    assert "rename that file" in hidden.stderr
    tune = Path(sys.executable).with_name("tune")
    done = subprocess.run([tune, "devices"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    tune = Path(sys.executable).with_name("tune")
    done = subprocess.run(f"{tune} devices | head -n 1", shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""
