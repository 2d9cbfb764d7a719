"""Swap of the machine, zram included: how much there is, is in use, and has been fetched back."""

import re
import resource
from typing import Optional

from .sysfs import SysFs


def swap_total_bytes(sysfs: SysFs) -> Optional[int]:
    """Swap there is; None where that is not said."""
    kib = _number(sysfs, "/proc/meminfo", "SwapTotal")
    return None if kib is None else kib * 1024


def swap_used_bytes(sysfs: SysFs) -> Optional[int]:
    """Swap in use; None where that is not said."""
    total, free = (_number(sysfs, "/proc/meminfo", key) for key in ("SwapTotal", "SwapFree"))
    return None if total is None or free is None else max(total - free, 0) * 1024


def swapped_in_bytes(sysfs: SysFs) -> Optional[int]:
    """What the whole machine has fetched back from swap since boot; None where that is not said."""
    pages = _number(sysfs, "/proc/vmstat", "pswpin")
    return None if pages is None else pages * resource.getpagesize()


def zram_devices(sysfs: SysFs) -> int:
    """How many swap devices are compressed memory, not storage."""
    return len(re.findall(r"^/dev/zram\d+\s", sysfs.read_or("/proc/swaps") or "", re.MULTILINE))


def _number(sysfs: SysFs, name: str, key: str) -> Optional[int]:
    found = re.search(r"^{}:?\s+(\d{{1,18}})\b".format(key), sysfs.read_or(name) or "", re.MULTILINE)
    return int(found.group(1)) if found else None
