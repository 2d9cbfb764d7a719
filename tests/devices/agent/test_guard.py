"""When the guard ends a burst, and what it does for memory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from devices.agent.board import Fault
from devices.agent.clock import Clock
from devices.agent.guard import Guard, GuardWatch, drop_caches, protect_process
from devices.agent.memory import MIB
from devices.agent.sysfs import SysFs
from devices.emulated_burst import GUARD_MARGIN, GUARD_PATIENCE_S
from tests.devices.agent.trees import plant, put

SUPER = "orin-nano-super-jp6"
OVER_CAP = Fault("over_cap", f"more than {GUARD_MARGIN:.0%} above the cap of {7:g} W for {GUARD_PATIENCE_S:g} s")


class StandingClock(Clock):
    """Time that only the test moves."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def fed(powers_w: list[float], period_s: float = 0.125, cap_w: float | None = 7.0) -> int | None:
    """Index of the sample at which the guard ends a burst; the samples come `period_s` apart."""
    guard = Guard(cap_w, StandingClock())
    for i, power_w in enumerate(powers_w):
        if guard.power(power_w, i * period_s) is not None:
            assert guard.fault == OVER_CAP
            return i
    assert guard.fault is None
    return None


@pytest.mark.parametrize(
    ("powers_w", "index"),
    [
        ([7.8] * 17, None),  # two seconds, not longer
        ([7.8] * 18, 17),
        ([7.69] * 200, None),  # within the margin
        ([9.0] * 16 + [7.6] + [9.0] * 17, None),  # below it in between
        ([5.0] * 40 + [9.0] * 18, 57),
        ([9.0] * 10 + [math.nan, 0.0, -1.0] + [9.0] * 5, 17),  # no power of a running machine: neither above nor below
        ([0.0] * 100, None),
    ],
)
def test_power_above_the_cap(powers_w: list[float], index: int | None) -> None:
    assert fed(powers_w) == index


def test_a_slow_meter_and_no_cap() -> None:
    assert fed([9.0] * 5, period_s=1.0) == 3
    assert fed([900.0] * 200, cap_w=None) is None


def test_samples_without_a_time_are_of_now() -> None:
    clock = StandingClock()
    guard = Guard(7.0, clock)
    assert guard.power(9.0) is None
    clock.now_s += 2.5
    assert guard.power(9.0) == OVER_CAP
    assert guard.power(1.0) == OVER_CAP  # the first fault stays
    assert guard.temperatures({"tj-thermal": 120.0}) == OVER_CAP


def test_temperatures() -> None:
    guard = Guard(None, StandingClock(), {"tj-thermal": 98.0})
    assert guard.temperatures({"tj-thermal": 97.9, "cpu-thermal": 94.9}) is None
    assert guard.temperatures({}) is None
    assert guard.temperatures({"tj-thermal": 98.0}) == Fault(
        "throttled", "tj-thermal reached 98 C, a burst ends at 98 C"
    )
    other = Guard(None, StandingClock(), {"tj-thermal": 98.0})
    assert other.temperatures({"cpu-thermal": 95.5}) == Fault(
        "throttled", "cpu-thermal reached 95.5 C, a burst ends at 95 C"
    )


def test_swap() -> None:
    guard = Guard(None, StandingClock())
    assert guard.swap(None) is None
    assert guard.swap(1000 * MIB) is None
    assert guard.swap(1256 * MIB) is None
    assert guard.swap(900 * MIB) is None
    assert guard.swap(1300 * MIB) == Fault("oom", "memory ran out: the machine began to swap (300 MiB more)")


# ---- the guard of a machine


def test_it_looks_at_the_machine_twice_a_second(tmp_path: Path) -> None:
    sysfs, clock = plant(SUPER, tmp_path), StandingClock()
    put(tmp_path, "sys/class/thermal/thermal_zone8/trip_point_0_type", "critical")
    put(tmp_path, "sys/class/thermal/thermal_zone8/trip_point_0_temp", "104500")
    watch = GuardWatch(sysfs, clock, 7.0)
    assert watch.fault(6.0) is None
    put(tmp_path, "sys/class/thermal/thermal_zone8/temp", "99000")
    clock.now_s += 0.5
    assert watch.fault(6.0) is None
    put(tmp_path, "sys/class/thermal/thermal_zone8/temp", "99750")
    clock.now_s += 0.25
    assert watch.fault(6.0) is None
    clock.now_s += 0.25
    assert watch.fault(6.0) == Fault("throttled", "tj-thermal reached 99.75 C, a burst ends at 99.5 C")


def test_it_ends_a_burst_by_power_and_by_swap(tmp_path: Path) -> None:
    sysfs, clock = plant(SUPER, tmp_path), StandingClock()
    text = "MemTotal: 8000000 kB\nSwapTotal: 4000000 kB\nSwapFree: {} kB"
    put(tmp_path, "proc/meminfo", text.format(4_000_000))
    hungry, large = GuardWatch(sysfs, clock, 7.0), GuardWatch(sysfs, clock, None)
    assert hungry.fault(9.0) is None
    clock.now_s = 2.5
    assert hungry.fault(9.0) == OVER_CAP
    assert large.fault(9.0) is None
    put(tmp_path, "proc/meminfo", text.format(3_000_000))
    clock.now_s = 3.5
    found = large.fault(None)
    assert found is not None
    assert found.status == "oom"
    for path in tmp_path.glob("sys/class/thermal/*/*"):
        path.unlink()
    (tmp_path / "proc/meminfo").unlink()
    assert GuardWatch(sysfs, clock, 7.0).fault(None) is None


# ---- memory


def test_the_kernel_spares_the_agent(tmp_path: Path) -> None:
    sysfs = SysFs(str(tmp_path))
    assert not protect_process(sysfs, 4242)  # no such process
    put(tmp_path, "proc/4242/oom_score_adj", "0")
    assert protect_process(sysfs, 4242)
    assert sysfs.read("/proc/4242/oom_score_adj") == "-900"


def test_caches_are_dropped_on_a_tegra_only(tmp_path: Path) -> None:
    for name, dropped in ((SUPER, True), ("rpi5", False)):
        root = tmp_path / name
        sysfs = plant(name, root)
        assert not drop_caches(sysfs)  # not allowed, or not there
        put(root, "proc/sys/vm/drop_caches", "0")
        assert drop_caches(sysfs) == dropped
        assert sysfs.read("/proc/sys/vm/drop_caches") == ("3" if dropped else "0")
