from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

TUNE = Path(sys.executable).with_name("tune")
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

    for name, (_, text) in COMMANDS.items():
        environment = {**os.environ, "COLUMNS": "80"}
        done = subprocess.run([TUNE, name, "--help"], capture_output=True, text=True, check=True, env=environment)
        assert "Usage: tune" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
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
    beside = subprocess.run([TUNE, "devices"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert beside.returncode == 0, beside.stderr
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([TUNE, "devices"], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(tmp_path / "devices.py") in done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run([TUNE, "devices", "--json"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert str(tmp_path / "devices.py") in json.loads(done.stdout)["error"]["message"]


def shell(command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{TUNE.parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False, timeout=120
    )


def test_a_reader_that_leaves_does_not_stop_the_study() -> None:
    done = shell(
        "tune run --device jetson-orin --cap 7W --strategy sobol --bursts 8 | head -n 1; echo ${PIPESTATUS[0]}"
    )
    assert done.stdout.splitlines()[0].startswith("source: emulated")
    assert done.stdout.splitlines()[1] == "0"
    assert done.stderr == ""
    assert Path("frozen.json").is_file()


@pytest.mark.parametrize("command", ["tune devices | head -n 1", "tune devices --json | head -n 1", "tune devices >&-"])
def test_output_nobody_reads_is_no_error(command: str) -> None:
    done = shell(f"{command}; echo status ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[-1] == "status 0"
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["tune devices", "tune devices --json", "tune list"])
def test_a_full_disk_under_the_output(command: str) -> None:
    done = shell(f"{command} > /dev/full")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2


def test_a_locale_without_the_characters(profile: Path) -> None:
    profile.write_text(profile.read_text().replace("Bench GPU", "Büro-Größe \u2192 GPU"), encoding="utf-8")
    done = shell(f"PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LC_ALL=C tune profile show {profile}")
    assert done.returncode == 0, done.stderr


def test_ctrl_c_before_the_first_burst_prints_the_document() -> None:
    command = [str(TUNE), "run", "--device", "jetson-orin", "--cap", "7W", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["stopped"] == "interrupted"
    assert document["recommended"] is None
    assert document["trials"] == []
