"""Memory of the machine: how much is left, and the guard that ends a burst before the machine suffers."""

from typing import Dict, Optional

from .sysfs import SysFs

MIB = 1024 * 1024
_CGROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)


def _table(text: Optional[str]) -> Dict[str, int]:
    """Lines `name: number` or `name number`."""
    found = {}
    for line in (text or "").splitlines():
        parts = line.replace(":", " ").split()
        if len(parts) >= 2 and parts[1].isdigit():
            found[parts[0]] = int(parts[1])
    return found


def total_bytes(sysfs: SysFs) -> Optional[int]:
    """Memory this process may use: the machine's, or its container's limit where that is less."""
    kib = _table(sysfs.read_or("/proc/meminfo")).get("MemTotal")
    total = None if kib is None else kib * 1024
    for limit, _, _, _ in _CGROUP_LIMITS:
        text = sysfs.read_or(limit) or ""
        if text.isdigit() and total is not None:
            total = min(total, int(text))
    return total


def available_bytes(sysfs: SysFs) -> Optional[int]:
    """Memory that can still be had without swapping: MemAvailable (page cache counts as free), or what is left of the
    container's limit where that is less. None where neither can be read.
    """
    kib = _table(sysfs.read_or("/proc/meminfo")).get("MemAvailable")
    available = None if kib is None else kib * 1024
    for limit, usage, stat, cache in _CGROUP_LIMITS:
        limit_text, usage_text = sysfs.read_or(limit) or "", sysfs.read_or(usage) or ""
        if limit_text.isdigit() and usage_text.isdigit():
            left = int(limit_text) - int(usage_text) + _table(sysfs.read_or(stat)).get(cache, 0)
            available = left if available is None else min(available, left)
    return available


def resident_bytes(sysfs: SysFs, pid: int) -> Optional[int]:
    """Memory a process holds, or None where that cannot be read."""
    kib = _table(sysfs.read_or("/proc/{}/status".format(pid))).get("VmRSS")
    return None if kib is None else kib * 1024


class MemoryGuard:
    """Watches the memory that is left while a trainer runs.

    A machine whose trainer takes the last page swaps, stalls or kills something else; on a board without discrete
    memory it reboots. The guard ends the burst while there is a reserve: 2 % of the memory, 64 MiB at least.
    """

    def __init__(self, sysfs: SysFs, pid: int) -> None:
        self._sysfs = sysfs
        self._pid = pid
        total = total_bytes(sysfs)
        self._reserve = max((total or 0) // 50, 64 * MIB)

    def shortage(self) -> Optional[str]:
        """Why the burst must end, or None."""
        available = available_bytes(self._sysfs)
        if available is None or available >= self._reserve:
            return None
        held = resident_bytes(self._sysfs, self._pid)
        trainer = "" if held is None else "; the trainer held {} MiB".format(held // MIB)
        return "memory ran out: {} MiB were left{}".format(available // MIB, trainer)
