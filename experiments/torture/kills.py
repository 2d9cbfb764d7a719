"""Agents killed at random moments on a mounted fake board: nothing may stay changed there, and no process behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devices.agent.journal import NAME
from devices.agent.sysfs import SysFs
from devices.catalog import find_board
from devices.device import Access, BurstPlan, WorkloadSpec
from devices.errors import DeviceError
from devices.fake.fuse import Served, mounted
from devices.remote import AgentDevice

MODEL, PRESET = "jetson-orin-nano", "2C-730-EMC665"
WORKLOAD = WorkloadSpec("resnet18")
WRITTEN = (
    "/sys/class/devfreq/17000000.ga10b/min_freq",
    "/sys/class/devfreq/17000000.ga10b/max_freq",
    "/sys/class/devfreq/17000000.ga10b/device/railgate_enable",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
    "/sys/devices/system/cpu/online",
    "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
)
RESTORED_S = 10.0  # longest time until the guardian has put everything back


@dataclass(frozen=True)
class Kill:
    """One kill and what it left.

    Attributes:
        after_s: Real seconds from the first request to the kill.
        number: The signal.
        written: Whether something was changed then.
        left: Files that stayed changed.
        processes: Processes that stayed.
    """

    after_s: float
    number: signal.Signals
    written: bool
    left: tuple[str, ...]
    processes: tuple[int, ...]


def campaign(folder: Path, kills: int, seed: int = 0) -> Iterator[Kill]:
    """Kill the agent of a running burst, again and again on the same board.

    Raises:
        DeviceError: nothing can be mounted here.
    """
    chosen = random.Random(seed)
    with mounted(folder, Served(model=MODEL)):
        board = SysFs(str(folder))
        before = _state(board)
        for _ in range(kills):
            number = chosen.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP))
            yield _kill(board, before, chosen.uniform(0.0, 1.6), number, chosen)


def _kill(
    board: SysFs, before: dict[str, str | None], after_s: float, number: signal.Signals, chosen: random.Random
) -> Kill:
    catalog = find_board(MODEL)
    assert catalog is not None
    access = Access(root=board.root)
    device = AgentDevice(MODEL, workload=WORKLOAD, access=access, pins=catalog.pins(PRESET))
    setting = {"gpu_freq_mhz": chosen.choice((306, 408, 510)), "batch_size": 16}
    family = _family(device.pid)
    timer = threading.Timer(after_s, _send, (device.pid, number, family))
    timer.start()
    try:
        while True:
            device.measure(setting, WORKLOAD, BurstPlan(cap_w=1000.0))
    except DeviceError:
        pass
    finally:
        timer.join()
        device.close()
    changed = {name for name, text in _state(board).items() if before[name] != text}
    deadline = time.monotonic() + RESTORED_S
    left: tuple[str, ...] = tuple(changed)
    alive: tuple[int, ...] = ()
    while time.monotonic() < deadline:
        left = tuple(name for name, text in _state(board).items() if before[name] != text)
        if board.exists(NAME):
            left = (*left, NAME)
        alive = tuple(pid for pid in family if _runs(pid))
        if not left and not alive:
            break
        time.sleep(0.02)
    return Kill(after_s, number, bool(changed), left, alive)


def _send(pid: int, number: signal.Signals, family: set[int]) -> None:
    family |= _family(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _state(board: SysFs) -> dict[str, str | None]:
    return {name: board.read_or(name) for name in WRITTEN}


def _family(pid: int) -> set[int]:
    """A process and all that came from it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
