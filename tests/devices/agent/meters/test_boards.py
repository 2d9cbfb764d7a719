"""Every tree of a board gives the watts it should, and none of the traps that other programs fell into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devices.agent.board import Problem
from devices.agent.meter import Meter, MeterFault
from devices.agent.meters import find_meter, trouble
from devices.agent.sysfs import SysFs
from tests.devices.agent.meters.clocks import StoppedClock
from tests.devices.agent.trees import NAMES, plant, put

ORIN = "sys/devices/platform/bus@0/c240000.i2c/i2c-1/1-0040/hwmon/hwmon1"
AGX_ORIN = "sys/devices/platform/bus@0/c240000.i2c/i2c-1"
NANO = "sys/devices/7000c400.i2c/i2c-1/i2c-6/6-0040/iio:device0"

RAILS = {  # watts as read off the boards' files, and the total
    "orin-nano-super-jp6": ({"VDD_IN": 4.785, "VDD_CPU_GPU_CV": 0.597, "VDD_SOC": 1.513}, 4.785),
    "orin-nano-jp5": ({"VDD_IN": 9.310, "VDD_CPU_GPU_CV": 4.500, "VDD_SOC": 2.003}, 9.310),
    "xavier-nx-jp5": ({"VDD_IN": 3.427, "VDD_CPU_GPU_CV": 0.604, "VDD_SOC": 1.047}, 3.427),
    "xavier-nx-jp4": ({"VDD_IN": 3.427, "VDD_CPU_GPU_CV": 0.603, "VDD_SOC": 1.046}, 3.427),
    "nano-jp4": ({"POM_5V_IN": 1.750, "POM_5V_GPU": 0.0, "POM_5V_CPU": 0.366}, 1.750),
    "agx-orin-jp6": (
        {"VDD_GPU_SOC": 3.362, "VDD_CPU_CV": 0.480, "VIN_SYS_5V0": 4.869, "VDDQ_VDD2_1V8AO": 0.397},
        8.711,
    ),
    "thor-jp7": (
        {"INA238 VIN": 29.354, "VDD_GPU": 7.706, "VDD_CPU_SOC_MSS": 11.558, "VIN_SYS_5V0": 8.853},
        29.354,
    ),
}
WITHOUT = ("rpi5", "rapl-intel")  # no files that measure; a counter that stands still


def find(sysfs: SysFs) -> tuple[Meter | None, list[Problem]]:
    return find_meter(sysfs, StoppedClock())


def reasons(problems: list[Problem]) -> str:
    assert all(problem.what and problem.mend for problem in problems)
    return "\n".join(f"{problem.what} -> {problem.mend}" for problem in problems)


def test_every_tree_is_here() -> None:
    assert {*RAILS, *WITHOUT} == set(NAMES)


@pytest.mark.parametrize("name", RAILS)
def test_watts_of_a_board(name: str, tmp_path: Path) -> None:
    meter, problems = find(plant(name, tmp_path))
    assert problems == []
    assert meter is not None
    total_w, rails = meter.read()
    expected, expected_w = RAILS[name]
    assert {rail: round(watts, 3) for rail, watts in rails.items()} == expected
    assert round(total_w, 3) == expected_w
    assert meter.statistics == ("p95", "peak", "mean")
    assert meter.lag_s == pytest.approx(0.43, abs=0.01)
    marked = [rail["rail"] for rail in meter.describe() if rail["is_total"]]
    assert marked == ([] if name == "agx-orin-jp6" else meter.total)
    meter.close()


def test_the_steps_of_a_chip(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    chip = "sys/devices/platform/bus@0/c240000.i2c/i2c-1/1-0040/hwmon/hwmon1"
    for shunt, step_a in (("5000", 8e-3), ("2000", 20e-3), ("0", 8e-3), ("", 8e-3)):  # 40 uV over the shunt
        put(tmp_path, f"{chip}/shunt1_resistor", shunt)
        meter, _ = find(sysfs)
        assert meter is not None
        assert meter.resolution_w == pytest.approx(step_a * 5, rel=0.02)


def test_what_is_summed_is_said(tmp_path: Path) -> None:
    meter, _ = find(plant("agx-orin-jp6", tmp_path))
    assert meter is not None
    assert meter.name == "VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0"
    assert meter.note is not None
    assert "fed by VIN_SYS_5V0 and not counted again" in meter.note


def test_agx_xavier_is_the_sum_of_six(tmp_path: Path) -> None:
    rails = (("GPU", "CPU", "SOC"), ("CV", "VDDRQ", "SYS5V"))
    for chip, labels in enumerate(rails):
        folder = f"sys/class/hwmon/hwmon{3 - chip}"
        put(tmp_path, f"{folder}/name", "ina3221")
        for n, label in enumerate(labels, 1):
            put(tmp_path, f"{folder}/in{n}_label", label)
            put(tmp_path, f"{folder}/in{n}_input", "19000")
            put(tmp_path, f"{folder}/curr{n}_input", "0" if label in ("GPU", "CV") else "100")  # idle, not dead
    meter, problems = find(SysFs(str(tmp_path)))
    assert meter is not None
    assert problems == []
    assert meter.read()[0] == pytest.approx(4 * 1.9)
    assert sorted(meter.total) == sorted(rails[0] + rails[1])
    (tmp_path / "sys/class/hwmon/hwmon3/in2_label").unlink()
    meter, problems = find(SysFs(str(tmp_path)))
    assert meter is None  # five of six are no total
    assert "no known total" in reasons(problems)


def test_tx2_has_its_input_on_the_second_chip(tmp_path: Path) -> None:
    chips = {
        "0-0040/iio:device0": ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI"),
        "0-0041/iio:device1": ("VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"),
        "0-0043/iio:device3": ("VDD_3V3_IO", "VDD_1V8_IO", "VDD_M2_IN"),
    }
    for chip, labels in chips.items():
        for n, label in enumerate(labels):
            folder = f"sys/bus/i2c/drivers/ina3221x/{chip}"
            put(tmp_path, f"{folder}/rail_name_{n}", label)
            put(tmp_path, f"{folder}/in_power{n}_input", "1910" if label == "VDD_IN" else "150")
    meter, problems = find(SysFs(str(tmp_path)))
    assert meter is not None
    assert problems == []
    assert meter.total == ["VDD_IN"]
    assert meter.read()[0] == pytest.approx(1.91)


def test_shunt_voltages_are_no_rails(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    for n in (4, 5, 6):
        put(tmp_path, f"{ORIN}/in{n}_label", "VDD_IN")
    meter, problems = find(sysfs)
    assert meter is not None
    assert problems == []
    assert [channel.name for channel in meter.channels] == ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"]


def test_neither_numbers_nor_other_paths_make_a_second_chip(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    link = tmp_path / "sys/class/hwmon/hwmon9"
    link.symlink_to("../../devices/platform/bus@0/c240000.i2c/i2c-1/1-0040/hwmon/hwmon1")
    (tmp_path / "sys/class/hwmon/hwmon1").unlink()
    meter, _ = find(sysfs)
    assert meter is not None
    assert len(meter.channels) == 3
    link.unlink()  # a class folder without it: through the bus
    meter, _ = find(sysfs)
    assert meter is not None
    assert meter.read()[0] == pytest.approx(4.785, abs=1e-3)


def test_how_long_a_chip_averages(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, f"{ORIN}/samples", "64")
    meter, _ = find(sysfs)
    assert meter is not None
    assert meter.lag_s == pytest.approx(3 * 64 * 280e-6)
    put(tmp_path, f"{ORIN}/update_interval", "215")
    meter, _ = find(sysfs)
    assert meter is not None
    assert meter.lag_s == 0.215


def test_a_rail_that_is_switched_off(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, f"{ORIN}/in3_enable", "0")
    meter, _ = find(sysfs)
    assert meter is not None
    assert [channel.name for channel in meter.channels] == ["VDD_IN", "VDD_CPU_GPU_CV"]
    put(tmp_path, f"{ORIN}/in1_enable", "0")
    meter, problems = find(sysfs)
    assert meter is None
    assert "VDD_IN is switched off: echo 1 | sudo tee /sys/class/hwmon/hwmon1/in1_enable" in reasons(problems)


def test_two_rails_of_one_name_are_no_total(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, f"{ORIN}/in2_label", "VDD_IN")
    meter, problems = find(sysfs)
    assert meter is None
    assert "VDD_IN (hwmon1.0), VDD_IN (hwmon1.1), VDD_SOC have no known total" in reasons(problems)


@pytest.mark.parametrize(
    ("labels", "total"),
    [
        (("VDD_MAIN_IN", "VDD_CORE", "VDD_SOC"), "VDD_MAIN_IN"),
        (("VIN", "VDD_CORE", "VDD_SOC"), "VIN"),
        (("VDD_A_IN", "VDD_B_IN", "VDD_SOC"), None),
        (("VIN_SYS_5V0", "VDD_CORE", "VDD_SOC"), None),
        (("VDD_MAIN", "VDD_CORE", "VDD_SOC"), None),
        (("NC", "NC", "NC"), None),
    ],
)
def test_a_board_that_is_not_known(labels: tuple[str, ...], total: str | None, tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    for n, label in enumerate(labels, 1):
        put(tmp_path, f"{ORIN}/in{n}_label", label)
    meter, problems = find(sysfs)
    if total is None:
        assert meter is None
        assert "no known total" in reasons(problems)
    else:
        assert meter is not None
        assert meter.total == [total]
        assert "is not known" in (meter.note or "")


def test_thor_without_its_monitor_has_no_total(tmp_path: Path) -> None:
    sysfs = plant("thor-jp7", tmp_path)
    put(tmp_path, "sys/class/hwmon/hwmon6/name", "other")
    put(tmp_path, "sys/class/power_supply/ucsi-source-psy-1/power_now", "60000000")  # a contract of USB, no measurement
    meter, problems = find(sysfs)
    assert meter is None
    assert "VIN_SYS_5V0 have no known total" in reasons(problems)


TOTALS = {  # the files that the total is read from
    "orin-nano-super-jp6": (f"{ORIN}/in1_input", f"{ORIN}/curr1_input"),
    "agx-orin-jp6": tuple(
        f"{AGX_ORIN}/1-0040/hwmon/hwmon3/{file}{n}_input" for n in (1, 2, 3) for file in ("in", "curr")
    ),
    "nano-jp4": (f"{NANO}/in_power0_input",),
    "thor-jp7": ("sys/class/hwmon/hwmon6/power1_input",),
}
FILES = [(name, file) for name, files in TOTALS.items() for file in files]


@pytest.mark.parametrize("content", ["", "garbage", "nan", "12.5", "1_000", "0x10", "\0\1"])
@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_file_of_the_total_that_holds_no_number(name: str, file: str, content: str, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    put(tmp_path, file, content)
    meter, problems = find(sysfs)
    assert meter is not None
    assert ("is empty" if not content else "no number") in reasons(problems)
    assert Path(file).name in reasons(problems)
    with pytest.raises(MeterFault, match=Path(file).name):
        meter.read()
    rails = {rail["rail"]: rail["watts"] for rail in meter.describe()}
    assert any(rails[rail] is None for rail in meter.total)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_file_of_the_total_that_is_missing(name: str, file: str, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    (tmp_path / file).unlink()
    meter, problems = find(sysfs)
    assert meter is not None
    assert f"{Path(file).name} cannot be read: No such file" in reasons(problems)
    with pytest.raises(MeterFault, match="No such file"):
        meter.read()


@pytest.mark.parametrize(("name", "file"), [pair for pair in FILES if "agx" not in pair[0] or "/in" in pair[1]])
@pytest.mark.parametrize("value", ["0", "-8"])
def test_a_meter_that_reads_nothing(name: str, file: str, value: str, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    put(tmp_path, file, value)
    meter, problems = find(sysfs)
    assert meter is not None
    assert "no meter of a running machine does" in reasons(problems) or "no rail of a running" in reasons(problems)
    assert "-> cat /sys/" in reasons(problems)
    with pytest.raises(MeterFault, match="of a running machine"):
        meter.read()
    assert all((rail["watts"] or 1) > 0 or not rail["is_total"] for rail in meter.describe())


@pytest.mark.parametrize("name", RAILS)
def test_a_label_that_is_missing_or_garbage(name: str, tmp_path: Path) -> None:
    """Whichever label is lost: the right total, or none; never another one."""
    sysfs = plant(name, tmp_path)
    labels = [path for path in tmp_path.rglob("*") if path.name in ("in1_label", "in2_label", "in3_label")]
    labels += list(tmp_path.rglob("rail_name_?"))
    assert len(labels) >= 3
    for label in labels:
        text = label.read_text()
        for content in (None, "", "\0\1", "?"):
            if content is None:
                label.unlink()
            else:
                label.write_text(content)
            meter, problems = find(sysfs)
            if meter is None:
                assert "no known total" in reasons(problems)
            else:
                assert meter.read()[0] == pytest.approx(RAILS[name][1], abs=1e-3)
            label.write_text(text)


class Refusing(SysFs):
    """Some files give an error number."""

    def __init__(self, root: str, names: str, number: int) -> None:
        super().__init__(root)
        self._names = names
        self._number = number

    def read(self, name: str) -> str:
        if self._names in name:
            raise OSError(self._number, os.strerror(self._number), name)
        return super().read(name)


def test_the_nano_lets_only_root_read_its_watts(tmp_path: Path) -> None:
    plant("nano-jp4", tmp_path)
    meter, problems = find(Refusing(str(tmp_path), "in_power", 13))
    assert meter is not None
    assert "in_power0_input cannot be read: Permission denied" in reasons(problems)
    assert "sudo chmod a+r /sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_power*_input" in reasons(problems)
    meter, problems = find(Refusing(str(tmp_path), "in_power1", 13))  # a rail inside: the total is there
    assert meter is not None
    assert problems == []
    assert set(meter.read()[1]) == {"POM_5V_IN", "POM_5V_CPU"}


@pytest.mark.parametrize(("number", "words"), [(11, "unavailable"), (121, "Remote I/O"), (5, "Input/output")])
def test_a_chip_that_does_not_answer(number: int, words: str, tmp_path: Path) -> None:
    plant("orin-nano-super-jp6", tmp_path)
    meter, problems = find(Refusing(str(tmp_path), "curr1_input", number))
    assert meter is not None
    assert words in reasons(problems)
    meter, problems = find(Refusing(str(tmp_path), "in1_label", number))
    assert meter is None
    assert "in1_label cannot be read" in reasons(problems)


def test_one_glitch_is_no_trouble(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, f"{ORIN}/curr1_input", "0")
    clock = StoppedClock(lambda seconds: put(tmp_path, f"{ORIN}/curr1_input", "960"))
    meter, problems = find_meter(sysfs, clock)
    assert meter is not None
    assert problems == []
    put(tmp_path, f"{ORIN}/curr1_input", "0")
    found = trouble(meter, StoppedClock())
    assert found is not None
    assert found.what == "VDD_IN (module input): VDD_IN reads 0 W: no meter of a running machine does"
    assert found.mend == "cat /sys/class/hwmon/hwmon1/in1_input /sys/class/hwmon/hwmon1/curr1_input"


def test_no_meter_at_all(tmp_path: Path) -> None:
    meter, problems = find(SysFs(str(tmp_path)))
    assert meter is None
    assert "no power meter was found" in reasons(problems)


def test_a_broken_meter_is_not_replaced_by_another(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, f"{ORIN}/curr1_input", "0")
    put(tmp_path, "sys/class/hwmon/hwmon7/name", "ina219")
    put(tmp_path, "sys/class/hwmon/hwmon7/power1_input", "5000000")
    meter, problems = find(sysfs)
    assert meter is not None
    assert meter.total == ["VDD_IN"]
    assert problems
