"""`tune doctor`: this machine, and boards by copies of their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.journal import NAME, Journal
from devices.agent.sysfs import SysFs
from tests.devices.agent.trees import NAMES, plant, put
from tests.tuner.cli.conftest import Tune

GPU = "/sys/class/devfreq/17000000.gpu/"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    root = tmp_path / "board"
    root.mkdir()
    plant("orin-nano-super-jp6", root)
    return root


def test_this_machine(tune: Tune) -> None:
    report = tune("doctor", "--json").json
    assert report["source"] == "measured"
    assert set(report) >= {"model", "module", "jetpack", "knobs", "meters", "held_fixed", "problems", "trainer"}
    assert report["trainer"]["torch"]
    assert all(problem["what"] and problem["mend"] for problem in report["problems"])


def test_a_board_by_its_files(tune: Tune, board: Path) -> None:
    result = tune("doctor", "--sysfs-root", board, "--json")
    assert result.code == 1
    report = result.json
    assert (report["module"], report["jetpack"], report["source"]) == ("jetson-orin-nano-super", "6.2.1", "emulated")
    (gpu,) = [knob for knob in report["knobs"] if knob["name"] == "gpu_freq_mhz"]
    assert gpu["values"] == [306, 408, 510, 612, 714, 816, 918, 1020]
    assert gpu["allowed"] == [306, 918]
    (total,) = [meter for meter in report["meters"] if meter["is_total"]]
    assert (total["rail"], total["watts"]) == ("VDD_IN", pytest.approx(4.785, abs=0.001))
    (narrow,) = [problem for problem in report["problems"] if "gpu_freq_mhz" in problem["what"]]
    assert "918" in narrow["what"]
    assert "nvpmodel" in narrow["mend"]


@pytest.mark.parametrize("name", NAMES)
def test_every_board_as_text(tune: Tune, tmp_path: Path, name: str) -> None:
    root = tmp_path / "board"
    root.mkdir()
    plant(name, root)
    result = tune("doctor", "--sysfs-root", root)
    assert result.code in (0, 1)
    assert "source: emulated" in result.out
    assert "Traceback" not in result.out + result.err
    assert result.out.count("\n! ") == result.out.count("\n  mend: ")


def test_an_empty_root_has_no_meter_and_no_gpu(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    report = tune("doctor", "--sysfs-root", tmp_path / "board", "--json").json
    assert report["model"] is None
    assert report["knobs"] == report["meters"] == []
    assert any("meter" in problem["what"] for problem in report["problems"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sysfs-root", "none"), "--sysfs-root none is no folder"),
        (("--device", "jetson-orinn"), "unknown device 'jetson-orinn'"),
    ],
)
def test_wrong_input(tune: Tune, arguments: tuple[str, ...], words: str) -> None:
    result = tune("doctor", *arguments)
    assert result.code == 2
    assert words in result.err


def test_another_module_of_the_family_is_what_answers_to_the_name(tune: Tune, tmp_path: Path) -> None:
    tune("fake-board", tmp_path / "board", "--plain", "--model", "xavier-nx", "--preset", "20W_6CORE")
    report = tune("doctor", "--device", "jetson-orin", "--sysfs-root", tmp_path / "board", "--json").json
    assert report["notes"][0] == (
        "this is no jetson-orin-nano but a jetson-xavier-nx: that is what --device jetson-orin tunes here"
    )
    assert not any("jetson-orin" in problem["what"] for problem in report["problems"])
    result = tune("doctor", "--device", "jetson-orin", "--sysfs-root", tmp_path / "board")
    assert "\n  note: this is no jetson-orin-nano but a jetson-xavier-nx" in result.out
    assert "\n  note: these are plain files that nothing answers" in result.out


def test_a_board_of_another_family_is_a_fault(tune: Tune, board: Path) -> None:
    result = tune("doctor", "--device", "raspberry-pi-5", "--sysfs-root", board, "--json")
    assert result.code == 1
    wrong = result.json["problems"][0]
    assert wrong["what"].startswith("raspberry-pi-5 was expected, this is NVIDIA Jetson Orin Nano")
    assert wrong["mend"] == f"tune doctor --device jetson-orin-nano-super --sysfs-root {board}"
    assert len(result.json["notes"]) == 1


def test_a_board_that_only_its_files_know(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    plant("thor-jp7", tmp_path / "board")
    report = tune("doctor", "--device", "pi5", "--sysfs-root", tmp_path / "board", "--json").json
    assert report["problems"][0]["mend"] == f"tune doctor --device jetson-agx-thor --sysfs-root {tmp_path / 'board'}"
    report = tune("doctor", "--device", "jetson-agx-thor", "--sysfs-root", tmp_path / "board", "--json").json
    assert not any("was expected" in problem["what"] for problem in report["problems"])
    assert "unknown device 'thorr'" in tune("doctor", "--device", "thorr", "--sysfs-root", tmp_path / "board").err


def test_restore_puts_back_what_a_killed_run_left(tune: Tune, board: Path) -> None:
    put(board, "/proc/sys/kernel/random/boot_id", "one")
    sysfs = SysFs(str(board))
    Journal(sysfs, Clock()).keep([GPU + "max_freq"])
    orphan(board)
    (board / (GPU + "max_freq").lstrip("/")).write_text("510000000\n")
    report = tune("doctor", "--sysfs-root", board, "--json").json
    assert any("an earlier run left knobs changed" in problem["what"] for problem in report["problems"])
    result = tune("doctor", "--sysfs-root", board, "--restore")
    assert f"put back: {GPU}max_freq" in result.out
    assert (board / (GPU + "max_freq").lstrip("/")).read_text() == "918000000"
    assert not (board / NAME.lstrip("/")).exists()
    assert "put back" not in tune("doctor", "--sysfs-root", board, "--restore").out


def orphan(board: Path) -> None:
    """The agent that wrote the journal has died."""
    journal = board / NAME.lstrip("/")
    journal.write_text(journal.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {2**22 + 1}'))
