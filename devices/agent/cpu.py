"""The device `cpu`: this machine's processors, whatever machine it is."""

import os
import platform
import re
from typing import Dict, List, Optional

from .board import Board, BoardKnob, Fault, Watch
from .clock import Clock
from .knobs import find_knobs
from .meters import find_meter
from .sysfs import SysFs

THREADS, CLOCK = "cpu_threads", "cpu_freq_mhz"
SLOWED = 0.05  # a throttled processor that became this much slower within the window does not count as steady


SHARED_SPREAD = 0.09
"""Relative spread of the rate from burst to burst on a virtual machine, whose neighbours nobody inside can see.

Measured on one with two cores: ten studies of digits-cnn and a small char-transformer, each with a trainer of its own,
lay 8 to 13 % apart (standard deviation), while the windows themselves said 1 to 3 %. With 9 %, 88 % of the 90 %
intervals held what the other studies found; 32 % without (`python -m experiments.repeatability`).
"""

OWN_SPREAD = 0.02
"""The same on a machine of one's own: assumed, not measured."""


class ThrottleWatch(Watch):
    """Counts of thermal throttling, where the processor keeps some (x86): laptops have them all day, so that they only
    matter where the burst became slower."""

    def __init__(self, sysfs: SysFs) -> None:
        self._sysfs = sysfs
        self._before = self._count()

    def verdict(self, slowed: float) -> Optional[Fault]:
        events = self._count() - self._before
        if not events or slowed <= SLOWED:
            return None
        text = "the processor was throttled {} times and became {:.0%} slower within the window"
        return Fault("throttled", text.format(events, slowed))

    def _count(self) -> int:
        total = 0
        for cpu in self._sysfs.list("/sys/devices/system/cpu"):
            name = "/sys/devices/system/cpu/{}/thermal_throttle/core_throttle_count".format(cpu)
            text = self._sysfs.read_or(name) if cpu[:3] == "cpu" and cpu[3:].isdigit() else None
            total += int(text) if text and text.isdigit() else 0
        return total


class Cpu(Board):
    """This machine's CPU as a device: threads, and where they may be written its clocks; metered by RAPL, if that can
    be read, or by an external meter."""

    name = "cpu"

    def __init__(self, sysfs: SysFs, clock: Clock, external: Optional[str] = None) -> None:
        super().__init__(sysfs, clock)
        cpus, threads = usable_cpus(sysfs), default_threads(sysfs)
        self.model = cpu_model(sysfs)
        self.trainer_knobs = [{"name": THREADS, "values": thread_steps(cpus, threads), "default": threads}]
        self.held_fixed = {"cpus": cpus}
        governor = sysfs.read_or("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        if governor:
            self.held_fixed["governor"] = governor
        meter, problems = find_meter(sysfs, clock, external)
        self.be_metered(meter, problems)
        if external is not None:
            self.notes = ["{} ({})".format(problem.what, problem.mend) for problem in problems]
        self.knobs = [knob for knob in find_knobs(sysfs, clock)[0] if knob.name == CLOCK and _settable(sysfs, knob)]
        flags = re.search(r"^flags\s*:.*\bhypervisor\b", sysfs.read_or("/proc/cpuinfo") or "", flags=re.MULTILINE)
        self.burst_spread = SHARED_SPREAD if flags else OWN_SPREAD

    def watches(self) -> List[Watch]:
        return [ThrottleWatch(self.sysfs)]

    def threads(self, setting: Dict[str, float]) -> int:
        return int(setting.get(THREADS) or default_threads(self.sysfs))


def _settable(sysfs: SysFs, knob: BoardKnob) -> bool:
    return all(sysfs.refusal(name) is None for name in knob.files())


def usable_cpus(sysfs: SysFs) -> int:
    """Logical CPUs that this process may use: its affinity, or its container's quota where that is less."""
    count = len(os.sched_getaffinity(0))
    quota = (sysfs.read_or("/sys/fs/cgroup/cpu.max") or "").split()
    if len(quota) == 2 and quota[0].isdigit():
        count = min(count, max(int(quota[0]) // int(quota[1]), 1))
    return count


def default_threads(sysfs: SysFs) -> int:
    """Threads that torch takes when nobody tells it: OMP_NUM_THREADS, else one a physical core."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if re.match(r"[1-9][0-9]{0,3}$", asked):
        return int(asked)
    cores = set()
    for cpu in sorted(os.sched_getaffinity(0)):
        topology = "/sys/devices/system/cpu/cpu{}/topology/".format(cpu)
        core = sysfs.read_or(topology + "thread_siblings_list")
        cores.add(core if core is not None else str(cpu))
    return max(min(len(cores), usable_cpus(sysfs)), 1)


def thread_steps(cpus: int, default: int) -> List[int]:
    """Numbers of threads worth trying: all up to eight, then half steps of powers of two, and the default."""
    steps = [n for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256) if n <= cpus]
    return sorted({*steps, cpus, default})


def cpu_model(sysfs: SysFs) -> Optional[str]:
    """The processor's or the board's name in words, or None."""
    board = (sysfs.read_or("/proc/device-tree/model") or "").rstrip("\0")
    found = re.search(r"^model name\s*:\s*(.+)$", sysfs.read_or("/proc/cpuinfo") or "", flags=re.MULTILINE)
    name = " ".join(found.group(1).split()) if found else ""
    return board or name or platform.processor() or platform.machine() or None
