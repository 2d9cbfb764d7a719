from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devices.measurement import Status
from devices.profile import read_profile
from tests.tuner.cli.conftest import Tune
from tests.tuner.cli.test_wrong_input import assert_refused

TUNE = Path(sys.executable).with_name("tune")
GRID = ("--values", "gpu_freq_mhz=306,408,510", "--values", "batch_size=8,16")
BOARD = ("record", "--device", "jetson-orin", "--preset", "2C-730")


def test_the_recorded_file_replays_as_what_it_is(tune: Tune) -> None:
    result = tune(*BOARD, *GRID, "--repeats", 2, "-o", "orin.csv")
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0].startswith("source: emulated - NVIDIA Jetson Orin Nano")
    assert "6 settings x 2 = 12 bursts; 12 to make, about" in result.out
    assert "6 settings, 12 rows: 12 ok, 0 failed" in result.out
    assert lines[-1] == "recorded: orin.csv"
    profile = read_profile("orin.csv")
    assert profile.metadata.provenance == "emulated"
    assert profile.metadata.extra["preset"] == "2C-730"
    assert tune("profile", "check", "orin.csv").code == 0
    replayed = tune("run", "--replay", "orin.csv", "--cap", "8.6W", "--strategy", "grid", "--json").json
    best = profile.best_feasible(8.6, "p95")
    assert best is not None
    assert replayed["source"] == "emulated"
    assert replayed["recommended"]["setting"] == best.setting


def test_json(tune: Tune) -> None:
    grid = ("--values", "gpu_freq_mhz=306,408,624.75", "--values", "batch_size=8,16")
    document = tune(*BOARD, *grid, "--cap", "7.9W", "-o", "orin.csv", "--json").json
    profile = read_profile("orin.csv")
    assert set(document) == {
        "profile", "device", "source", "workload", "throughput_unit", "settings", "rows", "ok", "failed", "skipped",
        "best", "duration_s", "interrupted",
    }  # fmt: skip
    assert (document["device"], document["source"]) == ("jetson-orin-nano", "emulated")
    assert (document["settings"], document["rows"], document["ok"]) == (6, 6, len(profile.ok_rows))
    assert Status.OVER_CAP in {row.status for row in profile.rows}
    best = profile.best_feasible(7.9, "p95")
    assert best is not None
    assert document["best"] == {"setting": best.setting, "throughput": best.throughput}
    assert document["duration_s"] > 60
    assert document["interrupted"] is False

    again = tune(*BOARD, *grid, "--cap", "7.9W", "-o", "orin.csv", "--json").json
    assert again == {**document, "duration_s": 0.0}
    assert "orin.csv is complete" in tune(*BOARD, *grid, "--cap", "7.9W", "-o", "orin.csv").out


def test_the_preset_is_chosen_without_a_cap_and_more_knobs_are_recorded(tune: Tune) -> None:
    document = tune(
        "record", "--device", "jetson-orin", *GRID, "--search", "emc_freq_mhz", "--values", "emc_freq_mhz=665.6,2133",
        "--workload", "digits-cnn", "-o", "orin.csv", "--json",
    ).json  # fmt: skip
    assert document["settings"] == 12
    assert read_profile("orin.csv").knob_names == ("gpu_freq_mhz", "batch_size", "emc_freq_mhz")


def test_batches_beyond_the_memory_are_left_out_and_counted(tune: Tune) -> None:
    values = ("--values", "gpu_freq_mhz=306,408,510", "--values", "batch_size=8,512,1024,2048")
    result = tune(*BOARD, *values, "-o", "orin.csv")
    rows = read_profile("orin.csv").rows
    assert result.code == 0
    assert Status.OOM in {row.status for row in rows}
    assert f"left out: {12 - len(rows)} settings" in result.out
    assert "\n  oom: batch" in result.out


def test_a_dry_run_says_how_long_and_writes_nothing(tune: Tune, tmp_path: Path) -> None:
    result = tune(*BOARD, *GRID, "--repeats", 3, "-o", "orin.csv", "--dry-run")
    assert result.code == 0
    assert "18 bursts; 18 to make, about 3.9 min to 6.9 min of the board's time" in result.out
    document = tune(*BOARD, *GRID, "-o", "orin.csv", "--dry-run", "--json").json
    assert (document["bursts"], document["left"], document["estimate_s"]) == (6, 6, [78.0, 138.0])
    assert list(tmp_path.iterdir()) == []


def test_another_preset_needs_another_file(tune: Tune) -> None:
    tune(*BOARD, *GRID, "-o", "orin.csv")
    before = Path("orin.csv").read_bytes()
    other = ("record", "--device", "jetson-orin", "--preset", "4C-1037", *GRID, "-o", "orin.csv")
    assert_refused(tune(*other), "preset is 2C-730 there, 4C-1037 now", "--fresh")
    assert Path("orin.csv").read_bytes() == before
    result = tune(*other, "--fresh")
    assert result.code == 0
    assert "kept as orin.1.csv" in result.out
    assert Path("orin.1.csv").read_bytes() == before
    assert read_profile("orin.csv").metadata.extra["preset"] == "4C-1037"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*BOARD,), ("--out",)),
        (("record", "-o", "x.csv"), ("--device",)),
        ((*BOARD, "-o", "."), ("folder",)),
        ((*BOARD, "-o", "missing/x.csv"), ("missing", "mkdir")),
        ((*BOARD, "-o", "x.csv", "--repeats", "0"), ("--repeats",)),
        ((*BOARD, "-o", "x.csv", "--seed", "-1"), ("--seed",)),
        ((*BOARD, "-o", "x.csv", "--cap", "7V"), ("--cap", "7W")),
        ((*BOARD, "-o", "x.csv", "--workload", "resnet19"), ("resnet19", "resnet18")),
        ((*BOARD, "-o", "x.csv", "--workload-arg", "size=3"), ("size", "image_size")),
        ((*BOARD, "-o", "x.csv", "--search", "fan"), ("fan", "cpu_freq_mhz")),
        ((*BOARD, "-o", "x.csv", "--values", "gpu_freq_mhz=500"), ("500", "nearest")),
        ((*BOARD, "-o", "x.csv", "--values", "fan=5"), ("fan",)),
        ((*BOARD, "-o", "x.csv", "--values", "batch_size=8", "--values", "batch_size=9"), ("twice",)),
        (("record", "--device", "jetson-oring", "-o", "x.csv"), ("unknown device", "jetson-orin")),
        (("record", "--device", "jetson-orin", "--preset", "9W", "-o", "x.csv"), ("preset", "15W")),
        (("record", "--replay", "x.csv", "-o", "y.csv"), ("--replay",)),
    ],
)
def test_wrong_input(tune: Tune, arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    assert_refused(tune(*arguments), *words)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_within_the_cap(tune: Tune) -> None:
    result = tune(*BOARD, *GRID, "--cap", "7.4W", "-o", "x.csv")
    assert result.code == 0
    assert "fastest: nothing measured is within the cap" in result.out


def test_nothing_fits(tune: Tune, tmp_path: Path) -> None:
    result = tune(*BOARD, "--values", "batch_size=100000", "-o", "x.csv")
    assert result.code == 1
    assert "no profile was written" in result.out
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_saves_and_the_same_command_would_go_on(tune: Tune) -> None:
    options = ("--repeats", "40", "-o", "orin.csv", "--json")
    command = [str(TUNE), *BOARD, *GRID, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not Path("orin.csv").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopping after this burst" in err
    document = json.loads(out)
    assert document["interrupted"] is True
    assert 0 < document["rows"] == len(read_profile("orin.csv").rows) < 240
    left = tune(*BOARD, *GRID, *options, "--dry-run").json["left"]
    assert left == 240 - document["rows"]
