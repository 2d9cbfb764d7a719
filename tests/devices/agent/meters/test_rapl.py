"""Energy counters of processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices.agent.board import Problem
from devices.agent.meter import Meter, MeterFault
from devices.agent.meters import find_meter
from devices.agent.sysfs import SysFs
from tests.devices.agent.meters.clocks import StoppedClock
from tests.devices.agent.meters.test_boards import Refusing
from tests.devices.agent.trees import plant, put

BASE = "sys/class/powercap"
RANGE_UJ = 262143328850


class Machine:
    """Counters that go on with the clock."""

    def __init__(self, root: Path, watts: dict[str, tuple[str, float]]) -> None:
        """`watts`: name and watts of each zone, by its path under powercap."""
        self.root = root
        self.watts = {zone: of for zone, (_, of) in watts.items()}
        self.energy_uj = dict.fromkeys(watts, 5e9)
        for zone, (name, _) in watts.items():
            put(root, f"{BASE}/{zone}/name", name)
            put(root, f"{BASE}/{zone}/max_energy_range_uj", str(RANGE_UJ))
        self.clock = StoppedClock(self._go_on)
        self._go_on(0.0)

    def _go_on(self, seconds: float) -> None:
        for zone, watts in self.watts.items():
            self.energy_uj[zone] = (self.energy_uj[zone] + watts * seconds * 1e6) % RANGE_UJ
            put(self.root, f"{BASE}/{zone}/energy_uj", f"{self.energy_uj[zone]:.0f}")

    def find(self, sysfs: SysFs | None = None) -> tuple[Meter | None, list[Problem]]:
        return find_meter(sysfs or SysFs(str(self.root)), self.clock)


def test_a_wrap(tmp_path: Path) -> None:
    sysfs = plant("rapl-intel", tmp_path)
    clock = StoppedClock()
    meter, _ = find_meter(sysfs, clock)
    assert meter is not None
    assert meter.total == ["package-0"]
    assert meter.statistics == ("mean",)
    assert meter.lag_s == 0
    clock.now_s += 0.1
    put(tmp_path, f"{BASE}/intel-rapl:0/energy_uj", "1000000")  # from 262143320000 on: 1008850 uJ
    assert meter.read()[0] == pytest.approx(1.008850 / 0.1)


def test_files_that_stand_still_are_a_dead_meter(tmp_path: Path) -> None:
    meter, problems = find_meter(plant("rapl-intel", tmp_path), StoppedClock())
    assert meter is not None
    assert meter.describe()[0] == {"rail": "package-0", "watts": None, "is_total": True}
    assert "package-0 reads 0 W" in problems[0].what
    assert "intel-rapl:0/energy_uj" in problems[0].mend


def test_a_counter_without_a_range_that_goes_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"intel-rapl:0": ("package-0", 10.0)})
    meter, _ = machine.find()
    assert meter is not None
    put(tmp_path, f"{BASE}/intel-rapl:0/max_energy_range_uj", "1000")
    machine.energy_uj["intel-rapl:0"] = 0.0
    with pytest.raises(MeterFault, match=r"energy_uj went from \d+ back to"):
        meter.read()


def test_sockets_are_summed_and_parts_are_not(tmp_path: Path) -> None:
    watts = {
        "intel-rapl:0": ("package-0", 40.0),
        "intel-rapl:0/intel-rapl:0:0": ("core", 25.0),
        "intel-rapl:0/intel-rapl:0:1": ("dram", 3.0),
        "intel-rapl:0/intel-rapl:0:2": ("uncore", 0.0),
        "intel-rapl:0:0": ("core", 25.0),  # the class shows the parts beside the packages too
        "intel-rapl:1": ("package-1", 30.0),
        "intel-rapl:2": ("psys", 95.0),
        "intel-rapl-mmio:0": ("package-0", 40.0),
    }
    machine = Machine(tmp_path, watts)
    began_s = machine.clock.now_s
    meter, problems = machine.find()
    assert meter is not None
    assert problems == []
    assert machine.clock.now_s - began_s == pytest.approx(0.05)  # one wait for all counters
    machine.clock.sleep(0.1)
    total_w, rails = meter.read()
    assert total_w == pytest.approx(70.0)
    parts = {"package-0-core": 25.0, "package-0-dram": 3.0, "package-0-uncore": 0.0, "psys": 95.0}
    assert rails == pytest.approx({"package-0": 40.0, "package-1": 30.0, **parts})
    assert "dram and psys are not counted in it" in (meter.note or "")


def test_readings_close_together_and_far_apart(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"intel-rapl:0": ("package-0", 10.0)})
    meter, _ = machine.find()
    assert meter is not None
    began_s = machine.clock.now_s
    assert meter.read()[0] == pytest.approx(10.0)
    assert machine.clock.now_s - began_s == pytest.approx(0.05)  # never over less
    machine.clock.sleep(3600)
    machine.watts["intel-rapl:0"] = 20.0
    assert meter.read()[0] == pytest.approx(20.0)  # not the mean of the last hour


def test_only_root_may_read(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"intel-rapl:0": ("package-0", 10.0)})
    meter, problems = machine.find(Refusing(str(tmp_path), "energy_uj", 13))
    assert meter is not None
    assert len(problems) == 1
    assert problems[0].what == "package-0: /sys/class/powercap/intel-rapl:0/energy_uj cannot be read: Permission denied"
    assert "sudo chgrp" in problems[0].mend
    assert "udev rule" in problems[0].mend
    with pytest.raises(MeterFault, match="Permission denied"):
        meter.read()


@pytest.mark.parametrize("unreadable", ["intel-rapl-mmio:0", "intel-rapl:0"])
def test_one_provider_that_cannot_be_read(unreadable: str, tmp_path: Path) -> None:
    zones = {"intel-rapl:0": ("package-0", 10.0), "intel-rapl-mmio:0": ("package-0", 10.0)}
    meter, problems = Machine(tmp_path, zones).find(Refusing(str(tmp_path), unreadable + "/energy_uj", 13))
    assert meter is not None
    assert problems == []
    assert meter.read()[0] == pytest.approx(10.0)


def test_a_socket_that_cannot_be_read_leaves_no_total(tmp_path: Path) -> None:
    zones = {"intel-rapl:0": ("package-0", 10.0), "intel-rapl:1": ("package-1", 12.0)}
    meter, problems = Machine(tmp_path, zones).find(Refusing(str(tmp_path), "intel-rapl:1/energy_uj", 13))
    assert meter is not None
    assert "package-1" in problems[0].what
    with pytest.raises(MeterFault):
        meter.read()


@pytest.mark.parametrize("content", ["", "much", "-"])
def test_garbage(content: str, tmp_path: Path) -> None:
    sysfs = plant("rapl-intel", tmp_path)
    put(tmp_path, f"{BASE}/intel-rapl:0/energy_uj", content)
    meter, problems = find_meter(sysfs, StoppedClock())
    assert meter is not None
    assert "energy_uj" in problems[0].what
    with pytest.raises(MeterFault, match="energy_uj"):
        meter.read()
