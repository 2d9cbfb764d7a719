"""Kill and Ctrl-C, for real: the command in a process of its own."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TUNE = Path(sys.executable).with_name("tune")
COMMAND = [
    str(TUNE), "run", "--device", "jetson-orin", "--cap", "7W", "--strategy", "sobol", "--bursts", "16", "--json",
    "--study", "killed",
]  # fmt: skip


def start(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--store", str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_trials(store: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with sqlite3.connect(store) as connection:
                (found,) = connection.execute("SELECT count(*) FROM tuner_trial WHERE state = 'done'").fetchone()
        except sqlite3.OperationalError:
            found = 0
        if found >= count:
            return
        time.sleep(0.005)
    pytest.fail(f"the study never got {count} trials: {process.communicate()}")


def finish(store: Path) -> dict[str, Any]:
    done = subprocess.run([*COMMAND, "--store", str(store)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    for key in ("search_time_s", "search_energy_j"):  # every start of a trainer costs time
        document.pop(key)
    return document


def test_a_killed_study_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.db", tmp_path / "whole.db"
    for count in (2, 5, 9):
        process = start(killed)
        wait_for_trials(killed, count, process)
        process.kill()
        process.communicate()
    resumed = finish(killed)
    assert [trial["index"] for trial in resumed["trials"]] == list(range(len(resumed["trials"])))
    assert resumed == finish(whole)


def test_ctrl_c_saves_and_the_command_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "stopped.db"
    process = start(store)
    wait_for_trials(store, 3, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["stopped"] == "interrupted"
    assert document["frozen"] is None
    assert "stopping after this burst" in err
    assert len(finish(store)["trials"]) > len(document["trials"])


def test_a_second_ctrl_c_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    store = tmp_path / "aborted.db"
    process = start(store)
    wait_for_trials(store, 2, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert finish(store)["recommended"] is not None
