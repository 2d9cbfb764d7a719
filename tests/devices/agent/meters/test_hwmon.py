"""Power monitors that somebody attached, whole machines, batteries."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices.agent.board import Problem
from devices.agent.meter import Meter, MeterFault
from devices.agent.meters import find_meter
from devices.agent.sysfs import SysFs
from tests.devices.agent.meters.clocks import StoppedClock
from tests.devices.agent.trees import put

HWMON = "sys/class/hwmon"
BATTERY = "sys/class/power_supply/BAT0"


def find(root: Path) -> tuple[Meter | None, list[Problem]]:
    return find_meter(SysFs(str(root)), StoppedClock())


def chip(root: Path, number: int, name: str, **files: str) -> None:
    put(root, f"{HWMON}/hwmon{number}/name", name)
    for file, content in files.items():
        put(root, f"{HWMON}/hwmon{number}/{file}", content)


@pytest.mark.parametrize("name", ["ina219", "ina226", "ina260", "ina238"])
def test_a_monitor_in_the_supply(name: str, tmp_path: Path) -> None:
    chip(tmp_path, 0, "cpu_thermal", temp1_input="50000")
    chip(tmp_path, 2, name, power1_input="4321000", update_interval="2")
    meter, problems = find(tmp_path)
    assert meter is not None
    assert problems == []
    assert meter.read() == (4.321, {name: 4.321})
    assert meter.lag_s == 0.002
    put(tmp_path, f"{HWMON}/hwmon2/power1_input", "0")
    with pytest.raises(MeterFault, match="reads 0 W"):
        meter.read()


def test_two_monitors_are_not_summed(tmp_path: Path) -> None:
    chip(tmp_path, 1, "ina219", power1_input="4000000")
    chip(tmp_path, 2, "ina226", power1_input="3000000")
    meter, problems = find(tmp_path)
    assert meter is None
    assert "/sys/class/hwmon/hwmon1 (ina219), /sys/class/hwmon/hwmon2 (ina226)" in problems[0].what
    assert "external meter" in problems[0].mend


def test_a_monitor_without_its_file(tmp_path: Path) -> None:
    chip(tmp_path, 1, "ina219")
    meter, problems = find(tmp_path)
    assert meter is not None
    assert "hwmon1/power1_input cannot be read: No such file" in problems[0].what


def test_the_power_of_a_part_is_no_total(tmp_path: Path) -> None:
    chip(tmp_path, 1, "amdgpu", power1_average="30000000")
    chip(tmp_path, 2, "nvme", power1_input="2000000")
    meter, problems = find(tmp_path)
    assert meter is None
    assert "no power meter was found" in problems[0].what


def test_a_whole_machine(tmp_path: Path) -> None:
    chip(tmp_path, 1, "power_meter", power1_average="210000000", power1_average_interval="1000")
    meter, problems = find(tmp_path)
    assert meter is not None
    assert problems == []
    assert meter.read()[0] == 210.0
    assert meter.lag_s == 1.0


@pytest.mark.parametrize(
    ("files", "watts"),
    [
        ({"power_now": "12500000"}, 12.5),
        ({"power_now": "-12500000"}, 12.5),
        ({"current_now": "1000000", "voltage_now": "11400000"}, 11.4),
        ({"current_now": "-1000000", "voltage_now": "11400000"}, 11.4),
    ],
)
def test_a_battery_that_discharges(files: dict[str, str], watts: float, tmp_path: Path) -> None:
    put(tmp_path, f"{BATTERY}/status", "Discharging")
    put(tmp_path, "sys/class/power_supply/AC/online", "0")
    put(tmp_path, "sys/class/power_supply/ucsi-source-psy-USBC000:001/power_now", "60000000")
    for file, content in files.items():
        put(tmp_path, f"{BATTERY}/{file}", content)
    meter, problems = find(tmp_path)
    assert meter is not None
    assert problems == []
    total_w, rails = meter.read()
    assert total_w == pytest.approx(watts)
    assert rails == {"BAT0": total_w}


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", ""])
def test_a_battery_that_does_not_discharge(status: str, tmp_path: Path) -> None:
    put(tmp_path, f"{BATTERY}/status", status)
    put(tmp_path, f"{BATTERY}/power_now", "12500000")
    meter, problems = find(tmp_path)
    assert meter is not None
    assert "only while it discharges" in problems[0].what
    assert f"BAT0/status says {status or 'unknown'}" in problems[0].what
    assert "pull the plug" in problems[0].mend
    with pytest.raises(MeterFault):
        meter.read()


def test_two_batteries_one_of_which_is_used(tmp_path: Path) -> None:
    for name, status in (("BAT0", "Not charging"), ("BAT1", "Discharging")):
        put(tmp_path, f"sys/class/power_supply/{name}/status", status)
        put(tmp_path, f"sys/class/power_supply/{name}/power_now", "9000000")
    meter, problems = find(tmp_path)
    assert meter is not None
    assert problems == []
    assert meter.read() == (9.0, {"BAT0": 0.0, "BAT1": 9.0})
    put(tmp_path, "sys/class/power_supply/BAT0/status", "Charging")  # the plug is in
    with pytest.raises(MeterFault, match="says Charging"):
        meter.read()


@pytest.mark.parametrize("content", ["0", "", "full"])
def test_a_gauge_that_does_not_measure(content: str, tmp_path: Path) -> None:
    put(tmp_path, f"{BATTERY}/status", "Discharging")
    put(tmp_path, f"{BATTERY}/power_now", content)
    meter, problems = find(tmp_path)
    assert meter is not None
    assert "BAT0" in problems[0].what
    with pytest.raises(MeterFault):
        meter.read()


def test_a_bay_without_a_battery(tmp_path: Path) -> None:
    put(tmp_path, f"{BATTERY}/present", "0")
    meter, problems = find(tmp_path)
    assert meter is None
    assert "no power meter was found" in problems[0].what
