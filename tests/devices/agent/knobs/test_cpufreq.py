"""The clock of the CPUs: all policies together, with or without a table, while policies come and go."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from devices.agent.failures import AgentError
from devices.agent.journal import put_back
from devices.agent.knobs import find_knobs
from devices.agent.knobs.cpufreq import CpuFreq
from devices.agent.sysfs import SysFs
from tests.devices.agent.knobs.kernels import CPUS, KERNELS, FakeClock, Kernel, add_cpus
from tests.devices.agent.trees import plant, put

ORIN_KHZ = (115200, 192000, 729600, 960000, 1344000, 1510400)
ORIN_MHZ = [115.2, 192.0, 729.6, 960.0, 1344.0, 1510.4]
POLICY = CPUS + "cpufreq/policy{}/"


def find(sysfs: SysFs) -> CpuFreq:
    knob = CpuFreq.find(sysfs, FakeClock())
    assert knob is not None
    return knob


def orin(root: Path, version: str) -> Kernel:
    add_cpus(root, 6, {0: (0, 1, 2, 3), 4: (4, 5)}, ORIN_KHZ)
    return Kernel(str(root), version)


def limits(sysfs: SysFs, policy: int) -> tuple[str, str]:
    folder = POLICY.format(policy)
    return sysfs.read(folder + "scaling_min_freq"), sysfs.read(folder + "scaling_max_freq")


@pytest.mark.parametrize(
    ("tree", "steps", "problems"),
    [
        ("rpi5", [float(mhz) for mhz in range(1500, 2401, 100)], 0),
        # the tree shows the table below the CPU only, and no lower limit
        (
            "nano-jp4",
            [102, 204, 307.2, 403.2, 518.4, 614.4, 710.4, 825.6, 921.6, 1036.8, 1132.8, 1224, 1326, 1428, 1479],
            1,
        ),
    ],
)
def test_each_board_is_read(tree: str, steps: list[float], problems: int, tmp_path: Path) -> None:
    knob = find(plant(tree, tmp_path))
    assert knob.name == "cpu_freq_mhz"
    assert knob.steps == steps
    assert knob.allowed() == (steps[0], steps[-1])
    assert [problem.what.endswith("scaling_min_freq is missing") for problem in knob.problems()] == [True] * problems


@pytest.mark.parametrize("tree", ["xavier-nx-jp4", "agx-orin-jp6", "rapl-intel", "thor-jp7"])
def test_without_policies_there_is_no_knob(tree: str, tmp_path: Path) -> None:
    assert CpuFreq.find(plant(tree, tmp_path), FakeClock()) is None


@pytest.mark.parametrize("tree", ["orin-nano-jp5", "orin-nano-super-jp6"])
def test_a_policy_that_shows_no_steps_is_a_named_problem(tree: str, tmp_path: Path) -> None:
    knobs, problems = find_knobs(plant(tree, tmp_path), FakeClock())
    assert all(knob.name != "cpu_freq_mhz" for knob in knobs)
    assert [problem.what for problem in problems if "CPU" in problem.what] == [
        f"the CPU clock has no steps: {POLICY.format(0)[:-1]} shows neither scaling_available_frequencies nor "
        "cpuinfo_min_freq and cpuinfo_max_freq"
    ]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("scaling_available_frequencies", "1500000 x", "holds 'x', which is no number"),
        ("scaling_available_frequencies", "", "is empty"),
        ("cpuinfo_max_freq", "<unknown>", "holds '<unknown>', which is no number"),
        ("cpuinfo_max_freq", "1000", "hold 800000 and 1000, no range"),
        ("cpuinfo_min_freq", "0", "hold 0 and 3000000, no range"),
    ],
)
def test_garbage_is_a_named_problem(name: str, text: str, what: str, tmp_path: Path) -> None:
    folder = POLICY.format(0)
    for file, khz in (("cpuinfo_min_freq", 800000), ("cpuinfo_max_freq", 3000000), ("scaling_min_freq", 800000)):
        put(tmp_path, folder + file, str(khz))
    put(tmp_path, folder + name, text)
    knobs, problems = find_knobs(SysFs(str(tmp_path)), FakeClock())
    assert knobs == []
    assert what in problems[0].what


def test_drivers_without_a_table_get_steps_of_100_mhz(tmp_path: Path) -> None:
    for policy, low, high in ((0, 800000, 1250000), (1, 400000, 1310000)):
        folder = POLICY.format(policy)
        for name, khz in (("cpuinfo_min", low), ("cpuinfo_max", high), ("scaling_min", low), ("scaling_max", high)):
            put(tmp_path, f"{folder}{name}_freq", str(khz))
        put(tmp_path, folder + "scaling_cur_freq", str(low))
    sysfs = SysFs(str(tmp_path))
    assert find(sysfs).steps == [800, 900, 1000, 1100, 1200]
    for name in ("scaling_min_freq", "cpuinfo_min_freq"):
        (tmp_path / POLICY.format(1)[1:] / name).unlink()
    assert "neither" in find_knobs(sysfs, FakeClock())[1][0].what


def test_policies_without_a_common_step_are_a_named_problem(tmp_path: Path) -> None:
    orin(tmp_path, "5.15")
    put(tmp_path, POLICY.format(4) + "scaling_available_frequencies", "500000 700000")
    problems = find_knobs(SysFs(str(tmp_path)), FakeClock())[1]
    assert problems[0].what.startswith("the CPUs have no clock in common: ")


@pytest.mark.parametrize("version", KERNELS)
def test_all_policies_are_held_and_given_back(version: str, tmp_path: Path) -> None:
    sysfs = orin(tmp_path, version)
    sysfs.write(POLICY.format(4) + "scaling_max_freq", "1344000")
    sysfs.write(POLICY.format(0) + "scaling_min_freq", "729600")
    knob = find(sysfs)
    assert knob.steps == ORIN_MHZ
    assert knob.allowed() == (729.6, 1344)
    found = {name: sysfs.read(name) for name in knob.files()}
    assert len(found) == 4
    for step in (1510.4, 115.2, 960.0):
        knob.hold(step)
        assert knob.fault(step, True) is None
        assert limits(sysfs, 0) == limits(sysfs, 4) == (str(round(step * 1000)),) * 2
    sysfs.write(POLICY.format(4) + "scaling_max_freq", "1344000")
    fault = knob.fault(960, True)
    assert fault is not None
    assert re.match(r"reset during the burst: min/max are now 960/1344 MHz.*policy4$", fault.reason)
    assert put_back(sysfs, FakeClock(), found).failed == []
    assert {name: sysfs.read(name) for name in found} == found


@pytest.mark.parametrize("version", KERNELS)
def test_the_fastest_policy_tells_the_clock_under_load(version: str, tmp_path: Path) -> None:
    sysfs = orin(tmp_path, version)
    knob = find(sysfs)
    knob.hold(1344)
    sysfs.low_by = 0.04  # a mean of counted cycles
    assert knob.fault(1344, True) is None
    sysfs.low_by = 0.3
    fault = knob.fault(1344, True)
    assert fault is not None
    assert fault.status == "throttled"
    assert "ran at 940.8 MHz" in fault.reason


@pytest.mark.parametrize("version", KERNELS)
def test_a_clamped_policy_is_said(version: str, tmp_path: Path) -> None:
    sysfs = orin(tmp_path, version)
    sysfs.caps["policy4"] = 960000
    sysfs.write(POLICY.format(4) + "scaling_max_freq", "960000")
    knob = find(sysfs)
    knob.hold(1510.4)
    fault = knob.fault(1510.4, False)
    assert fault is not None
    assert fault.reason.startswith("asked 1510.4 MHz, got 960 MHz: the driver or the heat clamps ")
    assert "policy4" in fault.reason


@pytest.mark.parametrize("version", KERNELS)
def test_a_policy_whose_cpus_are_off_is_passed_over_and_held_when_it_is_back(version: str, tmp_path: Path) -> None:
    sysfs = orin(tmp_path, version)
    for cpu in (4, 5):
        sysfs.write(f"{CPUS}cpu{cpu}/online", "0")
    knob = find(sysfs)
    assert knob.steps == ORIN_MHZ
    knob.hold(960)
    assert knob.fault(960, True) is None
    assert len(knob.files()) == 4  # its limits are in the journal when it wakes
    for cpu in (4, 5):
        sysfs.write(f"{CPUS}cpu{cpu}/online", "1")
    fault = knob.fault(960, True)
    assert fault is not None
    assert "policy4" in fault.reason
    knob.hold(960)
    assert knob.fault(960, True) is None
    assert limits(sysfs, 4) == ("960000", "960000")


def test_a_policy_that_vanishes_is_passed_over(tmp_path: Path) -> None:
    sysfs = orin(tmp_path, "5.15")
    knob = find(sysfs)
    knob.hold(960)
    for file in (tmp_path / POLICY.format(4)[1:]).iterdir():
        file.unlink()
    assert knob.fault(960, True) is None
    knob.hold(1344)
    assert limits(sysfs, 0) == ("1344000", "1344000")
    (tmp_path / POLICY.format(0)[1:] / "scaling_max_freq").unlink()
    fault = knob.fault(1344, True)
    assert fault is not None
    assert "scaling_m" in fault.reason
    assert "No such file" in fault.reason


def test_a_clock_that_is_not_shown_is_not_taken_as_held(tmp_path: Path) -> None:
    sysfs = orin(tmp_path, "5.15")
    knob = find(sysfs)
    knob.hold(960)
    (tmp_path / POLICY.format(4)[1:] / "scaling_cur_freq").unlink()
    assert knob.fault(960, False) is None
    fault = knob.fault(960, True)
    assert fault is not None
    assert "policy4/scaling_cur_freq cannot be read: No such file" in fault.reason


def test_without_rights_the_mend_is_said(tmp_path: Path) -> None:
    sysfs = orin(tmp_path, "5.15")
    sysfs.refuses = errno.EROFS
    with pytest.raises(AgentError, match="read-only mount"):
        find(sysfs).hold(960)
    assert ["read-only mount" in problem.what for problem in find(sysfs).problems()] == [True]


def test_a_narrowed_range_on_another_machine_names_the_file(tmp_path: Path) -> None:
    sysfs = plant("rpi5", tmp_path)
    folder = POLICY.format(0)
    put(tmp_path, folder + "scaling_max_freq", "1850000")
    knob = find(sysfs)
    assert knob.allowed() == (1500, 1800)
    assert [problem.mend for problem in knob.narrowed()] == [f"echo 2400000 | sudo tee {folder}scaling_max_freq"]
