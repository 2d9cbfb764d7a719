"""Kernels behind a tree of files: what they make of a written limit, and what they then show.

`Kernel` is a SysFs whose clocks, CPUs and memory clock behave: as 4.9 does (a lower limit above the upper one is
EINVAL), or as 5.5 and later (anything is taken, in kHz; what is shown is the range that all requests leave).
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from devices.agent.clock import Clock
from devices.agent.sysfs import SysFs
from tests.devices.agent.trees import plant, put

CPUS = "/sys/devices/system/cpu/"
EMC = "/sys/kernel/debug/bpmp/debug/clk/emc/"
KERNELS = ("4.9", "5.15")

_CLOCK_FILE = re.compile(r"(.*)/(scaling_)?(min|max|cur)_freq$")


class FakeClock(Clock):
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)


class Kernel(SysFs):
    """A tree that answers as a kernel.

    Attributes:
        caps: Highest value of a clock by its folder's last name, in the unit of its files: a power mode, the heat.
        low_by: By how much, relative, current clocks read below the step.
        idle: Current clocks show the lowest step.
        refuses: Error number of every write.
        log: What was written: last names of files and texts.
        busy: How often a CPU still answers EBUSY.
    """

    def __init__(self, root: str, version: str) -> None:
        super().__init__(root)
        self.aggregates = version != "4.9"
        self.caps: dict[str, int] = {}
        self.low_by = 0.0
        self.idle = False
        self.refuses: int | None = None
        self.log: list[tuple[str, str]] = []
        self.busy = 0
        self._asked: dict[str, dict[str, int]] = {}

    def refusal(self, name: str) -> int | None:
        return self.refuses or super().refusal(name)

    def read(self, name: str) -> str:
        clock = self._clock(name)
        if clock is not None:
            folder, end = clock
            if self.aggregates and self._asleep(folder):
                raise _error(errno.EBUSY)
            return str(self._shown(folder)[end])
        if name == CPUS + "online" and self._cpus():
            return ",".join(str(cpu) for cpu in self._cpus() if self._is_on(cpu))
        if name.endswith("/affected_cpus"):
            return "" if self._asleep(self.canonical(name).rpartition("/")[0]) else super().read(name)
        if name == EMC + "rate" and "emc" in self.caps:
            return str(min(int(super().read(name)), self.caps["emc"]))
        return super().read(name)

    def write(self, name: str, text: str) -> None:
        if self.refuses:
            raise _error(self.refuses)
        clock = self._clock(name)
        self.log.append((name.rpartition("/")[2], text))
        if clock is not None:
            self._limit(*clock, int(text))
            return
        if re.match(CPUS + r"cpu\d+/online$", name) and self.busy:
            self.busy -= 1
            raise _error(errno.EBUSY)
        if name == EMC + "rate" and super().read(EMC + "mrq_rate_locked") != "1":
            return  # the memory moves its clock by itself
        super().write(name, text)

    # ---- clocks

    def _clock(self, name: str) -> tuple[str, str] | None:
        found = _CLOCK_FILE.match(self.canonical(name))
        if found is None or not self.exists(name):
            return None
        table = found.group(1) + "/" + (found.group(2) or "") + "available_frequencies"
        return (found.group(1), found.group(3)) if self.exists(table) else None

    def _table(self, folder: str) -> list[int]:
        for name in ("/available_frequencies", "/scaling_available_frequencies"):
            if self.exists(folder + name):
                return sorted(int(word) for word in super().read(folder + name).split())
        return []

    def _file(self, folder: str, end: str) -> str:
        prefix = "/scaling_" if self.exists(folder + "/scaling_available_frequencies") else "/"
        return folder + prefix + end + "_freq"

    def _requests(self, folder: str) -> dict[str, int]:
        if folder not in self._asked:
            ends = {end: int(super(Kernel, self).read(self._file(folder, end))) for end in ("min", "max")}
            self._asked[folder] = ends
        return self._asked[folder]

    def _cap(self, folder: str) -> int:
        return self.caps.get(folder.rpartition("/")[2], 10**12)

    def _limit(self, folder: str, end: str, value: int) -> None:
        asked = self._requests(folder)
        if self._asleep(folder):
            raise _error(errno.EBUSY if self.aggregates else errno.EINVAL)
        if end == "cur":
            raise _error(errno.EACCES)
        if self.aggregates:
            unit = 1 if "cpufreq" in folder else 1000
            asked[end] = value // unit * unit if end == "min" else -(-value // unit) * unit
            return
        if end == "max":
            value = min(value, self._cap(folder))
        if (end == "min" and value > asked["max"]) or (end == "max" and value < asked["min"]):
            raise _error(errno.EINVAL)
        asked[end] = value

    def _shown(self, folder: str) -> dict[str, int]:
        low, high = self._requests(folder)["min"], self._requests(folder)["max"]
        table = self._table(folder)
        if self.aggregates:
            high = min(high or table[-1], self._cap(folder), table[-1])
            low = min(max(low, table[0]), high)
        step = max([step for step in table if step <= high] or table[:1])
        if self.idle:
            step = table[0]
        return {"min": low, "max": high, "cur": round(step * (1 - self.low_by))}

    # ---- CPUs

    def _cpus(self) -> list[int]:
        return sorted(int(name[3:]) for name in self.list(CPUS) if re.match(r"cpu\d+$", name))

    def _is_on(self, cpu: int) -> bool:
        name = f"{CPUS}cpu{cpu}/online"
        return not self.exists(name) or super().read(name) == "1"

    def _asleep(self, folder: str) -> bool:
        cpus = self.read_or(folder + "/related_cpus") or ""
        return bool(cpus) and bool(self._cpus()) and not any(self._is_on(int(cpu)) for cpu in cpus.split())


def kernel(tree: str, root: Path, version: str) -> Kernel:
    """The tree of that name under a kernel."""
    plant(tree, root)
    return Kernel(str(root), version)


def add_cpus(root: Path, count: int, policies: dict[int, tuple[int, ...]], steps_khz: tuple[int, ...]) -> None:
    """CPUs, of which only the first cannot be switched off, and their clocks by policy."""
    put(root, CPUS + "online", f"0-{count - 1}")
    for cpu in range(count):
        put(root, f"{CPUS}cpu{cpu}/topology/core_id", str(cpu))
        if cpu:
            put(root, f"{CPUS}cpu{cpu}/online", "1")
    for number, cpus in policies.items():
        folder = f"{CPUS}cpufreq/policy{number}/"
        put(root, folder + "scaling_available_frequencies", " ".join(map(str, steps_khz)) + " ")
        put(root, folder + "related_cpus", " ".join(map(str, cpus)))
        put(root, folder + "affected_cpus", " ".join(map(str, cpus)))
        put(root, folder + "scaling_min_freq", str(steps_khz[0]))
        put(root, folder + "scaling_max_freq", str(steps_khz[-1]))
        put(root, folder + "scaling_cur_freq", str(steps_khz[0]))


def add_emc(root: Path, rates: str | None, low: int, high: int) -> None:
    """A memory clock as JetPack 5 and 6 show it."""
    for name, text in (("min_rate", low), ("max_rate", high), ("rate", high), ("mrq_rate_locked", 0), ("state", 1)):
        put(root, EMC + name, str(text))
    if rates is not None:
        put(root, EMC + "possible_rates", rates)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
