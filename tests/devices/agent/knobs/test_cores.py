"""How many CPUs are switched on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from devices.agent.failures import AgentError
from devices.agent.journal import put_back
from devices.agent.knobs import find_knobs
from devices.agent.knobs.cores import CpuCores
from devices.agent.knobs.cpufreq import CpuFreq
from devices.agent.sysfs import SysFs
from tests.devices.agent.knobs.kernels import CPUS, KERNELS, FakeClock, Kernel, add_cpus
from tests.devices.agent.trees import NAMES, plant, put

STEPS_KHZ = (729600, 960000, 1510400)


def orin(root: Path, version: str = "5.15") -> Kernel:
    add_cpus(root, 6, {0: (0, 1, 2, 3), 4: (4, 5)}, STEPS_KHZ)
    return Kernel(str(root), version)


def find(sysfs: SysFs) -> CpuCores:
    knob = CpuCores.find(sysfs, FakeClock())
    assert knob is not None
    return knob


@pytest.mark.parametrize("tree", NAMES)
def test_where_no_cpu_can_be_switched_off_there_is_no_knob(tree: str, tmp_path: Path) -> None:
    assert CpuCores.find(plant(tree, tmp_path), FakeClock()) is None


def test_the_highest_are_switched_off_first_and_all_come_back(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    knob = find(sysfs)
    assert knob.name == "cpu_cores"
    assert knob.steps == [1, 2, 3, 4, 5, 6]
    assert knob.allowed() == (1, 6)
    assert knob.files() == [f"{CPUS}cpu{cpu}/online" for cpu in range(1, 6)]
    found = {name: sysfs.read(name) for name in knob.files()}
    for count in (4, 1, 6, 3):
        knob.hold(count)
        assert knob.fault(count, False) is None
        assert sysfs.read(CPUS + "online") == ",".join(str(cpu) for cpu in range(count))
    sysfs.log.clear()
    knob.hold(3)
    assert sysfs.log == []  # switching takes long, and all are as they should be
    assert put_back(sysfs, FakeClock(), found).failed == []
    assert sysfs.read(CPUS + "online") == "0,1,2,3,4,5"


def test_cpus_that_cannot_be_switched_stay_on(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    (tmp_path / CPUS[1:] / "cpu3/online").unlink()
    put(tmp_path, CPUS + "cpu0/online", "1")  # some kernels have one
    knob = find(sysfs)
    assert knob.steps == [2, 3, 4, 5, 6]
    assert f"{CPUS}cpu0/online" not in knob.files()
    knob.hold(3)
    assert sysfs.read(CPUS + "online") == "0,1,3"


def test_cpus_that_are_off_narrow_the_range(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    for cpu in (4, 5):
        sysfs.write(f"{CPUS}cpu{cpu}/online", "0")
    knob = find(sysfs)
    assert knob.allowed() == (1, 4)
    assert knob.problems() == []
    assert [tuple(problem) for problem in knob.narrowed()] == [
        ("only 4 of 6 CPUs are online", f"echo 1 | sudo tee {CPUS}cpu*/online")
    ]
    put(tmp_path, "proc/device-tree/compatible", "nvidia,p3767-0005\0nvidia,tegra234\0")
    assert "power mode" in knob.narrowed()[0].what
    assert "sudo nvpmodel -m" in knob.narrowed()[0].mend


def tx2(root: Path, denver: str) -> Kernel:
    """Four ARM cores, of which CPU 0 is one, and two Denver ones between them."""
    add_cpus(root, 6, {0: (0, 3, 4, 5), 1: (1, 2)}, STEPS_KHZ)
    for cpu in (1, 2):
        put(root, f"{CPUS}cpu{cpu}/online", denver)
    return Kernel(str(root), "4.9")


def test_those_that_are_on_are_held_before_others_and_one_cluster_before_the_next(tmp_path: Path) -> None:
    knob = find(tx2(tmp_path, "0"))
    sysfs = knob._sysfs
    assert knob.allowed() == (1, 4)
    for count, online in ((4, "0,3,4,5"), (2, "0,3"), (3, "0,3,4"), (4, "0,3,4,5"), (5, "0,1,3,4,5")):
        knob.hold(count)
        assert knob.fault(count, False) is None
        assert sysfs.read(CPUS + "online") == online
    knob = find(tx2(tmp_path, "1"))
    assert knob.allowed() == (1, 6)
    knob.hold(4)
    assert sysfs.read(CPUS + "online") == "0,3,4,5"


def test_a_cpu_that_is_off_for_good_is_none(tmp_path: Path) -> None:
    orin(tmp_path)
    (tmp_path / CPUS[1:] / "cpu5/online").unlink()
    put(tmp_path, CPUS + "online", "0-4")
    knob = find(SysFs(str(tmp_path)))
    assert knob.steps == [1, 2, 3, 4, 5]
    assert knob.narrowed() == []


def test_another_writer_is_noticed(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    knob = find(sysfs)
    knob.hold(4)
    sysfs.write(f"{CPUS}cpu5/online", "1")
    fault = knob.fault(4, True)
    assert fault is not None
    assert fault.status == "clock_not_applied"
    assert fault.reason.startswith("reset during the burst: CPUs 0, 1, 2, 3, 5 are now online, 0, 1, 2, 3 were asked")
    fault = knob.fault(4, False)
    assert fault is not None
    assert fault.reason.startswith("asked CPUs 0, 1, 2, 3, got 0, 1, 2, 3, 5 (")


@pytest.mark.parametrize("text", ["", "all", "0-", "0-1;3"])
def test_a_list_that_is_none_is_said(text: str, tmp_path: Path) -> None:
    orin(tmp_path)
    put(tmp_path, CPUS + "online", text)
    sysfs = SysFs(str(tmp_path))
    knob = find(sysfs)
    assert knob.allowed() == (1, 6)
    assert [CPUS + "online" in problem.what for problem in knob.problems()] == [True]
    fault = knob.fault(4, False)
    assert fault is not None
    assert CPUS + "online" in fault.reason


def test_a_busy_cpu_is_tried_again_but_not_for_ever(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    clock = FakeClock()
    knob = CpuCores.find(sysfs, clock)
    assert knob is not None
    sysfs.busy = 3
    knob.hold(5)
    assert knob.fault(5, False) is None
    sysfs.busy = 1000
    with pytest.raises(OSError, match="busy"):
        knob.hold(2)
    assert clock.now < 3


@pytest.mark.parametrize("value", [0, 2.5, 7])
def test_a_number_of_cpus_that_is_none_is_refused(value: float, tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    with pytest.raises(AgentError, match=f"cpu_cores has no step {value:g}"):
        find(sysfs).hold(value)
    assert sysfs.log == []


def test_without_rights_the_mend_is_said(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    sysfs.refuses = errno.EACCES
    with pytest.raises(AgentError, match="may only be written by root"):
        find(sysfs).hold(2)
    assert ["root" in problem.what for problem in find(sysfs).problems()] == [True]


@pytest.mark.parametrize("version", KERNELS)
def test_cpus_are_switched_before_their_clocks_are_set_and_both_come_back(version: str, tmp_path: Path) -> None:
    sysfs = orin(tmp_path, version)
    knobs, problems = find_knobs(sysfs, FakeClock())
    assert problems == []
    assert [type(knob) for knob in knobs] == [CpuCores, CpuFreq]
    found = {name: sysfs.read(name) for knob in knobs for name in knob.files()}
    for setting in ((4, 960), (2, 1510.4), (6, 729.6), (1, 960), (5, 960)):
        for knob, value in zip(knobs, setting, strict=True):  # as the agent does
            knob.hold(value)
        assert [knob.fault(value, True) for knob, value in zip(knobs, setting, strict=True)] == [None, None]
    knobs[0].hold(3)
    assert put_back(sysfs, FakeClock(), found).failed == []
    assert {name: sysfs.read(name) for name in found} == found
