"""What makes a burst count for nothing: the board slowed down, changed its mode, or swapped."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from devices.agent.board import Fault
from devices.agent.clock import Clock
from devices.agent.sysfs import SysFs
from devices.agent.watches import BoardWatch, ModeWatch
from tests.devices.agent.trees import NAMES, plant, put

SUPER = "orin-nano-super-jp6"
OC = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon3"
STATUS = "var/lib/nvpmodel/status"
ONLINE = "sys/devices/system/cpu/online"


class StandingClock(Clock):
    """Time that only the test moves."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class RealSysFs(SysFs):
    """A tree that passes for the machine's own root."""

    @property
    def real(self) -> bool:
        return True


def watch(sysfs: SysFs) -> BoardWatch:
    return BoardWatch(sysfs, StandingClock())


@pytest.mark.parametrize("name", NAMES)
def test_a_board_at_rest_has_no_fault(name: str, tmp_path: Path) -> None:
    watched = watch(plant(name, tmp_path))
    assert watched.fault(5.0) is None
    assert watched.fault(None) is None


@pytest.mark.parametrize(
    ("path", "content", "fault"),
    [
        (
            "sys/class/thermal/cooling_device0/cur_state",
            "1",
            Fault("throttled", "the board slowed itself down: cpu-throttle-alert is at 1"),
        ),
        (
            f"{OC}/oc3_event_cnt",
            "7",
            Fault(
                "throttled",
                "OC3 instantaneous over-current events during the burst: 7; each halves the clocks for a moment",
            ),
        ),
        (
            ONLINE,
            "0-3",
            Fault("clock_not_applied", "the CPUs that are online changed during the burst: from 0-5 to 0-3"),
        ),
    ],
)
def test_what_changes_during_a_burst(path: str, content: str, fault: Fault, tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    watched = watch(sysfs)
    before = (tmp_path / path).read_text().strip()
    put(tmp_path, path, content)
    assert watched.fault(5.0) == fault
    put(tmp_path, path, before)
    assert watched.fault(5.0) == fault  # what was seen is not forgotten
    assert watch(sysfs).fault(5.0) is None


def test_another_power_mode_than_the_study_began_with(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    watched = ModeWatch(sysfs)
    assert watched.fault(5.0) is None
    put(tmp_path, STATUS, "pmode:0000")
    text = "the power mode changed: from mode 1 to mode 0; sudo nvpmodel -m 1 brings it back"
    for _ in range(2):  # in every burst from then on
        assert watched.fault(5.0) == Fault("clock_not_applied", text)
    put(tmp_path, STATUS, "pmode:0001")
    assert watched.fault(5.0) is None


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "OC1 under-voltage"), (2, "OC2 average over-current"), (3, "OC3 instantaneous over-current"), (4, "OC4")],
)
def test_over_current_is_counted_from_the_start_of_the_burst(number: int, words: str, tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    put(tmp_path, f"{OC}/oc{number}_event_cnt", "12")
    watched = watch(sysfs)
    assert watched.fault(5.0) is None
    put(tmp_path, f"{OC}/oc{number}_event_cnt", "15")
    found = watched.fault(5.0)
    assert found is not None
    assert found.reason.startswith(words)
    assert "burst: 3;" in found.reason


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("devfreq-17000000.gpu", True),
        ("soc0-throttle-alert", True),
        ("thermal-cpufreq-0", True),
        ("pwm-fan", False),
        ("Processor", False),
    ],
)
def test_which_cooling_devices_tell_of_throttling(name: str, counts: bool, tmp_path: Path) -> None:
    put(tmp_path, "sys/class/thermal/cooling_device5/type", name)
    put(tmp_path, "sys/class/thermal/cooling_device5/cur_state", "3")
    assert (watch(SysFs(str(tmp_path))).fault(None) is not None) == counts


def test_what_is_fetched_back_from_swap(tmp_path: Path) -> None:
    pages = 16 * 1024 * 1024 // resource.getpagesize()
    put(tmp_path, "proc/vmstat", "nr_free_pages 10\npswpin 1000\npswpout 0")
    watched = watch(SysFs(str(tmp_path)))
    put(tmp_path, "proc/vmstat", f"pswpin {1000 + pages}\npswpout 0")
    assert watched.fault(None) is None
    put(tmp_path, "proc/vmstat", f"pswpin {1000 + 2 * pages}\npswpout 0")
    assert watched.fault(None) == Fault(
        "throttled", "the machine swapped: 32 MiB were fetched back during the burst, so it measured the disk"
    )


@pytest.mark.parametrize("garbage", [None, "", "\0", "many"])
def test_files_that_vanish_or_say_nothing_are_no_fault(garbage: str | None, tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    put(tmp_path, "proc/vmstat", "pswpin 1")
    watched = watch(sysfs)
    for path in [*tmp_path.glob("sys/class/thermal/*/*"), *tmp_path.glob(f"{OC}/*"), *tmp_path.glob("proc/vmstat")]:
        path.unlink()
        if garbage is not None:
            put(tmp_path, str(path.relative_to(tmp_path)), garbage)
    for name in (STATUS, ONLINE):
        (tmp_path / name).unlink()
    assert watched.fault(5.0) is None
    assert watch(sysfs).fault(5.0) is None


class Firmware:
    """A Raspberry Pi's, that says one word after another and then the last."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, command: list[str]) -> str:
        assert command == ["vcgencmd", "get_throttled"]
        self.asked += 1
        return f"throttled={self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]}\n"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (("0x0", "0x0"), None),
        (("0x50000", "0x50000"), None),  # since boot, not now
        (("0x50000", "0x50001"), "the firmware says: under-voltage"),
        (("0x10000", "0x50000"), "the firmware says: throttled"),  # came and went between two looks
        (("0x0", "0xe000e"), "the firmware says: the arm frequency is capped, throttled, soft temperature limit"),
    ],
)
def test_a_raspberry_pi_is_asked_every_two_seconds(
    answers: tuple[str, str], reason: str | None, tmp_path: Path
) -> None:
    plant("rpi5", tmp_path)
    clock, firmware = StandingClock(), Firmware(*answers)
    watched = BoardWatch(RealSysFs(str(tmp_path)), clock, firmware)
    assert watched.fault(None) is None
    assert firmware.asked == 1
    clock.now_s += 2.0
    assert watched.fault(None) == (None if reason is None else Fault("throttled", reason))
    assert firmware.asked == 2
    clock.now_s += 1.0
    watched.fault(None)
    assert firmware.asked == 2


def test_no_command_is_run_beside_a_copy_of_a_board(tmp_path: Path) -> None:
    firmware = Firmware("0x5")
    clock = StandingClock()
    watched = BoardWatch(plant("rpi5", tmp_path), clock, firmware)
    clock.now_s += 60
    assert watched.fault(None) is None
    assert firmware.asked == 0
