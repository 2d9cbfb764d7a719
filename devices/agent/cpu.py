"""The device `cpu`: this machine's processors. Its knobs belong to the trainer; nothing of the system is written."""

import os
import platform
import re
from typing import Any, Dict, List, Optional

from .sysfs import SysFs

THREADS = "cpu_threads"
BATCH = "batch_size"


SHARED_SPREAD = 0.09
"""Relative spread of the rate from burst to burst on a virtual machine, whose neighbours nobody inside can see.

Measured on one with two cores: ten studies of digits-cnn and a small char-transformer, each with a trainer of its own,
lay 8 to 13 % apart (standard deviation), while the windows themselves said 1 to 3 %. With 9 %, 88 % of the 90 %
intervals held what the other studies found; 32 % without (`python -m experiments.repeatability`).
"""

OWN_SPREAD = 0.02
"""The same on a machine of one's own: assumed, not measured."""


class Cpu:
    """This machine's CPU as a device.

    Args:
        sysfs: The machine's files.
    """

    name = "cpu"
    metered = False

    def __init__(self, sysfs: SysFs) -> None:
        self._sysfs = sysfs
        self._cpus = usable_cpus(sysfs)

    def describe(self) -> Dict[str, Any]:
        """Name, model, knobs with all values, meter, and what is held fixed."""
        threads = default_threads(self._sysfs)
        return {
            "name": self.name,
            "model": cpu_model(self._sysfs),
            "knobs": [{"name": THREADS, "values": thread_steps(self._cpus, threads), "default": threads}],
            "meter": None,
            "statistics": [],
            "held_fixed": self._held_fixed(),
        }

    @property
    def burst_spread(self) -> float:
        """Relative standard deviation of the rate from burst to burst, beyond what a window shows."""
        flags = re.search(r"^flags\s*:.*\bhypervisor\b", self._sysfs.read_or("/proc/cpuinfo") or "", flags=re.MULTILINE)
        return SHARED_SPREAD if flags else OWN_SPREAD

    def apply(self, setting: Dict[str, float]) -> Dict[str, float]:
        """The setting, as it will hold: the trainer is told batch and threads with each burst, and reads them back.

        Raises:
            ValueError: a knob this device does not have, or a value that is no whole number >= 1.
        """
        for name, value in setting.items():
            if name not in (BATCH, THREADS):
                raise ValueError("cpu has no knob {!r}".format(name))
            if value != int(value) or value < 1:
                raise ValueError("{} must be a whole number >= 1, not {!r}".format(name, value))
        return dict(setting)

    def restore(self) -> List[str]:
        """The knobs put back: none, nothing was written."""
        return []

    def threads(self, setting: Dict[str, float]) -> int:
        """Threads of torch at a setting."""
        return int(setting.get(THREADS) or default_threads(self._sysfs))

    def _held_fixed(self) -> Dict[str, Any]:
        fixed: Dict[str, Any] = {"cpus": self._cpus}
        governor = self._sysfs.read_or("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        if governor:
            fixed["governor"] = governor
        return fixed


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
