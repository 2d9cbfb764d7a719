"""What the agent reads of a machine, from files made up for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.cpu import OWN_SPREAD, SHARED_SPREAD, Cpu, default_threads, thread_steps, usable_cpus
from devices.agent.failures import describe_end, is_out_of_memory, was_killed
from devices.agent.memory import MIB, MemoryGuard, available_bytes, resident_bytes, total_bytes
from devices.agent.sysfs import SysFs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "proc/meminfo", "MemTotal: 8000000 kB\nMemFree: 100000 kB\nMemAvailable: 4000000 kB")
    put(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name\t: Test  CPU @ 1 GHz\n")
    put(tmp_path, "proc/77/status", "Name: python\nVmRSS: 2048 kB\n")
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def test_memory_of_the_machine(root: Path) -> None:
    sysfs = SysFs(str(root))
    assert total_bytes(sysfs) == 8_000_000 * 1024
    assert available_bytes(sysfs) == 4_000_000 * 1024  # not MemFree: page cache can be had
    assert resident_bytes(sysfs, 77) == 2 * MIB
    assert resident_bytes(sysfs, 78) is None


@pytest.mark.parametrize("version", [1, 2])
def test_memory_of_a_container(root: Path, version: int) -> None:
    names = ("memory.max", "memory.current", "memory.stat")
    if version == 1:
        names = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat")
    for name, text in zip(
        names, ("1000000000", "900000000", "inactive_file 50000000\ntotal_inactive_file 50000000"), strict=True
    ):
        put(root, f"sys/fs/cgroup/{name}", text)
    sysfs = SysFs(str(root))
    assert total_bytes(sysfs) == 1_000_000_000
    assert available_bytes(sysfs) == 150_000_000
    put(root, f"sys/fs/cgroup/{names[0]}", "max" if version == 2 else "9223372036854771712")
    assert available_bytes(sysfs) == 4_000_000 * 1024


def test_the_guard_speaks_up_before_the_last_page(root: Path) -> None:
    guard = MemoryGuard(SysFs(str(root)), 77)
    assert guard.shortage() is None
    put(root, "proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 150000 kB")
    assert guard.shortage() == "memory ran out: 146 MiB were left; the trainer held 2 MiB"
    put(root, "proc/meminfo", "nothing")
    assert guard.shortage() is None


def test_the_cpu_of_a_machine(root: Path) -> None:
    assert Cpu(SysFs(str(root)), Clock()).burst_spread == OWN_SPREAD
    described = Cpu(SysFs(str(root)), Clock()).describe()
    assert described["model"] == "Test CPU @ 1 GHz"
    assert described["statistics"] == []
    put(root, "proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0")
    put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "ondemand")
    put(root, "proc/cpuinfo", "model name : X\nflags\t: fpu hypervisor lm\n")
    assert Cpu(SysFs(str(root)), Clock()).burst_spread == SHARED_SPREAD
    described = Cpu(SysFs(str(root)), Clock()).describe()
    assert described["model"] == "Raspberry Pi 4 Model B Rev 1.4"
    assert described["held_fixed"]["governor"] == "ondemand"


def test_threads(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    sysfs = SysFs(str(root))
    assert usable_cpus(sysfs) == 4
    assert default_threads(sysfs) == 4
    for cpu in range(4):
        put(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu % 2},{cpu % 2 + 2}")
    assert default_threads(sysfs) == 2  # two cores of two threads each
    put(root, "sys/fs/cgroup/cpu.max", "100000 100000")
    assert usable_cpus(sysfs) == 1
    assert default_threads(sysfs) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads(sysfs) == 3
    assert thread_steps(4, 4) == [1, 2, 3, 4]
    assert thread_steps(20, 10) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20]


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes",
        "NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp:995",
        "NvMapMemAllocInternalTagged: 1075072515 error 12",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "MemoryError",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB",
    ],
)
def test_what_boards_print_when_memory_runs_out(text: str) -> None:
    assert is_out_of_memory(text)


@pytest.mark.parametrize(
    "text", ["", "ValueError: no good", "NvMapReserve", "error 12", "KeyError: 'memory'", "failed to allocate a port"]
)
def test_what_is_no_shortage_of_memory(text: str) -> None:
    assert not is_out_of_memory(text)


def test_ends_of_processes() -> None:
    assert was_killed(-9)
    assert was_killed(137)
    assert not was_killed(-15)
    assert not was_killed(None)
    assert describe_end(-11, "") == "was ended by SIGSEGV"
    assert describe_end(3, "a\n b ") == "ended with exit status 3; its last words: a b"
    assert describe_end(None, "") == "closed its connection"


def test_only_files_that_are_there_are_written(root: Path) -> None:
    sysfs = SysFs(str(root))
    with pytest.raises(OSError, match="No such file"):
        sysfs.write("/sys/no/such/knob", "1")
    sysfs.write("/proc/cpuinfo", "x")
    assert sysfs.list("/proc") == ["77", "cpuinfo", "meminfo"]
    assert sysfs.list("/nowhere") == []
    assert sysfs.read_or("/nowhere", "-") == "-"
