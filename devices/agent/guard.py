"""The guard: ends a burst that stays above the cap, becomes too hot, or drives the machine into its swap."""

import os
from typing import Dict, Optional

from .board import Fault, Watch
from .clock import Clock
from .identity import identify
from .memory import MIB
from .swap import swap_used_bytes
from .sysfs import SysFs
from .thermal import DEFAULT_LIMIT_C, limits, temperatures

MARGIN = 0.10  # power this far above the cap ends the burst ...
PATIENCE_S = 2.0  # ... when it stays there for longer than this
SWAP_BYTES = 256 * MIB  # swap a burst may begin to use: more, and the batch is too large for the memory
_LOOK_S = 0.5  # between two looks at temperatures and swap

AGENT_SCORE = -900  # the last that the kernel should kill when memory is short; the trainer has 1000


class Guard:
    """Decides by what it is fed. The first fault stays.

    Args:
        cap_w: The cap; None: any power is right.
        clock: Time of samples that come without one.
        limits: Temperature in C at which a burst ends, by zone; 95 C for a zone that is not in it.

    Attributes:
        above_since_s: When power went too far above the cap, where it is there; else None.
        fault: The first fault.
    """

    def __init__(self, cap_w: Optional[float], clock: Clock, limits: Optional[Dict[str, float]] = None) -> None:
        self._cap_w = cap_w
        self._clock = clock
        self._limits = limits or {}
        self.above_since_s: Optional[float] = None
        self._swap_before: Optional[int] = None
        self.fault: Optional[Fault] = None

    def power(self, power_w: float, time_s: Optional[float] = None) -> Optional[Fault]:
        """A sample of the total, in the order of time. What is no power of a running machine is passed over: that the
        meter fails is said by the meter."""
        if self._cap_w is None or not power_w > 0:
            return self.fault
        now_s = self._clock.monotonic() if time_s is None else time_s
        if power_w <= self._cap_w * (1 + MARGIN):
            self.above_since_s = None
        elif self.above_since_s is None:
            self.above_since_s = now_s
        elif now_s - self.above_since_s > PATIENCE_S:
            text = "more than {:.0%} above the cap of {:g} W for {:g} s"
            self._end(Fault("over_cap", text.format(MARGIN, self._cap_w, PATIENCE_S)))
        return self.fault

    def temperatures(self, now_c: Dict[str, float]) -> Optional[Fault]:
        """Temperatures in C, by zone."""
        for name, temperature_c in now_c.items():
            limit_c = self._limits.get(name, DEFAULT_LIMIT_C)
            if temperature_c >= limit_c:
                text = "{} reached {:g} C, a burst ends at {:g} C"
                self._end(Fault("throttled", text.format(name, temperature_c, limit_c)))
        return self.fault

    def swap(self, used_bytes: Optional[int]) -> Optional[Fault]:
        """Swap in use; the first value is what later ones are compared with."""
        if used_bytes is None:
            return self.fault
        if self._swap_before is None:
            self._swap_before = used_bytes
        grown = used_bytes - self._swap_before
        if grown > SWAP_BYTES:
            self._end(Fault("oom", "memory ran out: the machine began to swap ({} MiB more)".format(grown // MIB)))
        return self.fault

    def _end(self, fault: Fault) -> None:
        self.fault = self.fault or fault


class GuardWatch(Watch):
    """The guard of a real machine: it looks at temperatures and swap itself, twice a second.

    Args:
        sysfs, clock: The machine's.
        cap_w: The cap, or None.
    """

    def __init__(self, sysfs: SysFs, clock: Clock, cap_w: Optional[float]) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._guard = Guard(cap_w, clock, limits(sysfs))
        self._guard.swap(swap_used_bytes(sysfs))
        self._looked_s: Optional[float] = None

    def fault(self, power_w: Optional[float]) -> Optional[Fault]:
        """Why the burst must end, or None."""
        now_s = self._clock.monotonic()
        if power_w is not None:
            self._guard.power(power_w, now_s)
        if self._looked_s is None or now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._guard.temperatures(temperatures(self._sysfs))
            self._guard.swap(swap_used_bytes(self._sysfs))
        return self._guard.fault


def protect_process(sysfs: SysFs, pid: Optional[int] = None) -> bool:
    """Have the kernel spare a process (this one) when memory is short; False where it is not allowed: it takes root.

    What the process starts inherits it, until told otherwise.
    """
    try:
        sysfs.write("/proc/{}/oom_score_adj".format(os.getpid() if pid is None else pid), str(AGENT_SCORE))
    except OSError:
        return False
    return True


def drop_caches(sysfs: SysFs) -> bool:
    """After memory ran out on a Tegra, whose GPU cannot use what the page cache holds: empty it. Whether it was done.

    Only what is on disk can be dropped, so that everything is written out first.
    """
    if not identify(sysfs).is_tegra:
        return False
    if sysfs.real:
        os.sync()
    try:
        sysfs.write("/proc/sys/vm/drop_caches", "3")
    except OSError:
        return False
    return True
