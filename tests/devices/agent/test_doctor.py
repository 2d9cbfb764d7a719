"""The doctor's document over every tree, whole and mutilated."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from devices.agent import journal
from devices.agent.board import BoardKnob, Problem
from devices.agent.clock import Clock
from devices.agent.doctor import examine
from devices.agent.failures import AgentError
from devices.agent.knobs import find_knobs
from devices.agent.meter import Channel, Meter, MeterFault
from devices.agent.sysfs import MARKER, SysFs
from devices.fake.board import FakeBoard
from devices.fake.sysfs import FakeSysFs
from tests.devices.agent.trees import NAMES, plant, put

SUPER = "orin-nano-super-jp6"
GPU = "/sys/class/devfreq/17000000.gpu/"


class HastyClock(Clock):
    """Does not wait: what the trees hold does not change."""

    def sleep(self, seconds: float) -> None:
        pass


CLOCK = HastyClock()
KEYS = {
    "model",
    "module",
    "family",
    "jetpack",
    "source",
    "gpu",
    "knobs",
    "meters",
    "total",
    "held_fixed",
    "memory",
    "temperatures_c",
    "over_current_events",
    "problems",
    "notes",
}
MODULES = {
    "orin-nano-super-jp6": ("jetson-orin-nano-super", "6.2.1"),
    "orin-nano-jp5": ("jetson-orin-nano", "5.1.1"),
    "xavier-nx-jp5": ("jetson-xavier-nx", "5.1.1"),
    "xavier-nx-jp4": ("jetson-xavier-nx", "4.6.1"),
    "nano-jp4": ("jetson-nano", "4.6"),
    "agx-orin-jp6": ("jetson-agx-orin", None),
    "thor-jp7": ("jetson-agx-thor", "7"),
    "rpi5": ("raspberry-pi-5", None),
    "rapl-intel": (None, None),
}


class Gpu(BoardKnob):
    """A knob over the files of the Super tree; it reads them anew each time, as a real one does."""

    name = "gpu_freq_mhz"

    def __init__(self, sysfs: SysFs) -> None:
        self._sysfs = sysfs
        self.steps = [int(word) / 1e6 for word in sysfs.read(GPU + "available_frequencies").split()]

    def allowed(self) -> tuple[float, float]:
        return int(self._sysfs.read(GPU + "min_freq")) / 1e6, int(self._sysfs.read(GPU + "max_freq")) / 1e6

    def files(self) -> list[str]:
        return [GPU + "max_freq", GPU + "min_freq"]


def find_gpu(sysfs: SysFs, clock: Clock) -> tuple[list[BoardKnob], list[Problem]]:
    return [Gpu(sysfs)] if sysfs.exists(GPU) else [], []


def find_meter(sysfs: SysFs, clock: Clock) -> tuple[Meter | None, list[Problem]]:
    folder = "/sys/class/hwmon/hwmon1/"

    def read(number: int) -> float:
        try:
            return int(sysfs.read(f"{folder}in{number}_input")) * int(sysfs.read(f"{folder}curr{number}_input")) / 1e6
        except (OSError, ValueError) as error:
            raise MeterFault(f"{folder}in{number}_input: {error}") from error

    if sysfs.read_or(folder + "name") != "ina3221":
        return None, []
    channels = [Channel("VDD_IN", lambda: read(1), True), Channel("VDD_SOC", lambda: read(3))]
    return Meter("VDD_IN (module input)", channels, ["VDD_IN"]), []


def documented(sysfs: SysFs, own: bool = True) -> dict[str, Any]:
    """The document, which must be JSON without NaN, never say 0 W of a total, and have a mend for each problem.

    Args:
        own: Whether knobs and meter are the ones above; else those of the agent.
    """
    found = examine(sysfs, CLOCK, find_gpu, find_meter) if own else examine(sysfs, CLOCK)
    assert set(found) == KEYS
    json.dumps(found, allow_nan=False)
    assert all(problem["what"] and problem["mend"] for problem in found["problems"])
    assert all(rail["watts"] is None or rail["watts"] > 0 for rail in found["meters"] if rail["is_total"])
    assert found["total"] is None or found["total"]["watts"] is None or found["total"]["watts"] > 0
    assert found["source"] == "emulated"
    return found


def whats(found: dict[str, Any]) -> str:
    return "\n".join(problem["what"] for problem in found["problems"])


def test_a_whole_board(tmp_path: Path) -> None:
    found = documented(plant(SUPER, tmp_path))
    assert found["gpu"] is True
    assert found["model"] == "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"
    assert found["knobs"] == [
        {
            "name": "gpu_freq_mhz",
            "unit": "MHz",
            "values": [306, 408, 510, 612, 714, 816, 918, 1020],
            "allowed": [306, 918],
            "writable": True,
        }
    ]
    assert [(rail["rail"], rail["is_total"]) for rail in found["meters"]] == [("VDD_IN", True), ("VDD_SOC", False)]
    assert found["total"] == {"name": "VDD_IN (module input)", "watts": pytest.approx(4.78464), "note": None}
    assert found["held_fixed"]["tpc_mask"] == 240
    assert found["temperatures_c"]["tj-thermal"] == 47.468
    assert found["over_current_events"] == {
        "OC1 under-voltage": 0,
        "OC2 average over-current": 0,
        "OC3 instantaneous over-current": 0,
    }
    assert "gpu_freq_mhz may only be 306 to 918 now, its steps reach from 306 to 1020" in whats(found)


@pytest.mark.parametrize("name", NAMES)
def test_every_tree(name: str, tmp_path: Path) -> None:
    found = documented(plant(name, tmp_path))
    assert (found["module"], found["jetpack"]) == MODULES[name]
    if name != SUPER:
        assert "no power meter was found" in whats(found)
        lacks_gpu = not found["knobs"] and str(found["module"]).startswith("jetson")
        assert ("no GPU clock was found in /sys/class/devfreq" in whats(found)) == lacks_gpu


@pytest.mark.parametrize(
    ("name", "allowed", "total_w"),
    [
        ("orin-nano-super-jp6", [306, 918], 4.785),
        ("orin-nano-jp5", [306, 624.75], 9.310),
        ("xavier-nx-jp5", [114.75, 510], 3.427),
        ("xavier-nx-jp4", [114.75, 1109.25], 3.427),
        ("nano-jp4", [76.8, 921.6], 1.750),
        ("agx-orin-jp6", [306, 1300.5], 8.711),
        ("thor-jp7", [315, 1575], 29.354),
        ("rpi5", None, None),
        ("rapl-intel", None, None),
    ],
)
def test_every_tree_with_the_knobs_and_meters_of_the_agent(
    name: str, allowed: list[float] | None, total_w: float | None, tmp_path: Path
) -> None:
    found = documented(plant(name, tmp_path), own=False)
    gpus = [knob["allowed"] for knob in found["knobs"] if knob["name"] == "gpu_freq_mhz"]
    assert gpus == ([] if allowed is None else [allowed])
    assert (found["total"] or {}).get("watts") == (None if total_w is None else pytest.approx(total_w, abs=0.0006))
    assert found["gpu"] == (allowed is not None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00\xfe garbage \x80 -1 nan", b"0", b"-1"])
def test_each_file_in_turn_lost_empty_or_garbage(name: str, content: bytes | None, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    for path in [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and not path.is_symlink()]:
        whole = path.read_bytes()
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        documented(sysfs, own=False)
        path.write_bytes(whole)
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_symlink()):
        target = path.readlink()
        path.unlink()
        path.symlink_to(path.name)  # a loop
        documented(sysfs, own=False)
        path.unlink()
        path.symlink_to(target)


def test_files_that_are_folders(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    for path in [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]:
        path.unlink()
        path.mkdir()
    found = documented(sysfs)
    assert (found["model"], found["module"], found["knobs"]) == (None, None, [])


def test_an_empty_root_has_problems_not_errors(tmp_path: Path) -> None:
    found = documented(SysFs(str(tmp_path)))
    assert (found["model"], found["module"], found["jetpack"], found["held_fixed"]) == (None, None, None, {})
    assert whats(found) == "no power meter was found, so no cap can be held"


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("curr1_input", "0", "VDD_IN (module input) reads 0 W"),
        ("curr1_input", None, "VDD_IN (module input) cannot be read: /sys/class/hwmon/hwmon1/in1_input"),
        ("curr1_input", "much", "VDD_IN (module input) cannot be read: /sys/class/hwmon/hwmon1/in1_input"),
    ],
)
def test_a_dead_meter_says_why_and_never_0_w(path: str, content: str | None, words: str, tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    file = tmp_path / "sys/devices/platform/bus@0/c240000.i2c/i2c-1/1-0040/hwmon/hwmon1" / path
    file.unlink()
    if content is not None:
        put(tmp_path, str(file.relative_to(tmp_path)), content)
    found = documented(sysfs)
    assert words in whats(found)
    assert found["meters"][0] == {"rail": "VDD_IN", "watts": None, "is_total": True}
    assert found["meters"][1]["watts"] > 0


class RefusingSysFs(SysFs):
    number = errno.EACCES

    def refusal(self, name: str) -> int | None:
        return self.number


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.EACCES, "sudo tune doctor"),
        (errno.EROFS, "the container's /sys is read-only: start it with --privileged, or run outside of it"),
        (errno.ENOENT, f"ls -l {GPU}max_freq"),
    ],
)
def test_each_refusal_has_its_own_mend(number: int, mend: str, tmp_path: Path) -> None:
    plant(SUPER, tmp_path)
    sysfs = RefusingSysFs(str(tmp_path))
    sysfs.number = number
    found = documented(sysfs)
    assert found["knobs"][0]["writable"] is False
    wrong = [problem for problem in found["problems"] if "cannot be set" in problem["what"]]
    assert wrong[0]["what"] == f"gpu_freq_mhz cannot be set: {GPU}max_freq: {os.strerror(number)}"
    assert mend in wrong[0]["mend"]


@pytest.mark.parametrize(
    "error",
    [OSError(5, "Input/output error", GPU), ValueError("no number"), AgentError("device", "no driver"), IndexError()],
)
def test_finders_that_fail_are_problems(error: Exception, tmp_path: Path) -> None:
    def fail(sysfs: SysFs, clock: Clock) -> Any:
        raise error

    found = examine(plant(SUPER, tmp_path), CLOCK, fail, fail)
    assert (found["knobs"], found["meters"], found["total"]) == ([], [], None)
    assert "the knobs cannot be read" in whats(found)
    assert "the power meter cannot be read" in whats(found)


def test_a_narrow_range_is_mended_by_the_widest_power_mode(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    modes = (
        "< POWER_MODEL ID=1 NAME=25W >\nGPU MAX_FREQ 918000000\n< POWER_MODEL ID=2 NAME=MAXN_SUPER >\nGPU MAX_FREQ -1"
    )
    put(tmp_path, "etc/nvpmodel.conf", modes)
    found = documented(sysfs)
    assert len(found["problems"]) == 1
    assert found["problems"][0]["mend"].endswith("sudo nvpmodel -m 2 (MAXN_SUPER)")
    put(tmp_path, GPU + "max_freq", "1020000000")
    assert documented(sysfs)["problems"] == []


def test_what_an_earlier_run_left(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    document = {
        "boot_id": journal.boot_id(sysfs),
        "pid": 2**22 + 1,  # larger than any
        "began": "1",
        "groups": [],
        "values": [[GPU + "max_freq", "1"]],
    }
    put(tmp_path, journal.NAME, json.dumps(document))
    found = documented(sysfs)["problems"][0]
    assert found == {
        "what": f"an earlier run left knobs changed: {GPU}max_freq",
        "mend": "sudo tune doctor --restore",
    }
    put(tmp_path, journal.NAME, json.dumps({**document, "pid": os.getpid(), "began": journal.began(os.getpid())}))
    assert f"another agent, process {os.getpid()}, tunes this board" in whats(documented(sysfs))


@pytest.mark.parametrize("lives", [True, False])
def test_clocks_that_an_agent_holds_are_its_work_alone(lives: bool) -> None:
    board = FakeBoard("jetson-orin-nano")
    sysfs = FakeSysFs(board)
    knobs = find_knobs(sysfs, CLOCK)[0]
    names = [name for knob in knobs for name in knob.files()]
    values = [[name, sysfs.read(name)] for name in names]
    for knob in knobs:
        knob.hold(knob.steps[-2])
    assert {"gpu_freq_mhz", "cpu_freq_mhz", "CPUs"} <= {word for text in advice(sysfs) for word in text.split()}
    assert any("as jetson_clocks leaves them" in text for text in advice(sysfs))
    document = {
        "boot_id": journal.boot_id(sysfs),
        "pid": os.getpid() if lives else 2**22 + 1,
        "began": journal.began(os.getpid()),
        "groups": [],
        "values": values,
    }
    sysfs.replace(journal.NAME, json.dumps(document))
    (said,) = examine(sysfs, CLOCK)["problems"]
    assert said["what"].startswith(f"another agent, process {os.getpid()}, tunes" if lives else "an earlier run left")
    assert said["mend"] == ("wait until it has ended" if lives else "sudo tune doctor --restore")
    held = [value for value in values if value[0] not in knobs[0].files()]
    sysfs.replace(journal.NAME, json.dumps({**document, "values": held}))
    said, narrowed, *_ = examine(sysfs, CLOCK)["problems"]
    assert narrowed["what"].startswith("gpu_freq_mhz has steps from 306 to 624.75 MHz, of which only")  # not its work


def advice(sysfs: SysFs) -> list[str]:
    return [problem["what"] for problem in examine(sysfs, CLOCK)["problems"]]


def test_of_plain_files_it_is_said_what_they_cannot_tell(tmp_path: Path) -> None:
    (note,) = documented(plant(SUPER, tmp_path))["notes"]
    assert note.startswith("these are plain files that nothing answers")
    put(tmp_path, MARKER, "{}")
    assert documented(SysFs(str(tmp_path)))["notes"] == []  # a fake board answers
    assert examine(FakeSysFs(FakeBoard()), CLOCK)["notes"] == []
    assert examine(SysFs("/"), CLOCK)["notes"] == []
