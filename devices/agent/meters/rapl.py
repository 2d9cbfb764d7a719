"""RAPL: the energy counters of Intel and AMD processors, under /sys/class/powercap.

The total is the sum of the packages (sockets). Not in it: `dram`, which is beside the package, and `psys`, which
contains it and whatever else the maker of the mainboard wired to it; both are shown. Several providers may show one
package (`intel-rapl`, `intel-rapl-mmio`): it is counted once, by the first that can be read.
"""

import re
from typing import Dict, List, Optional, Tuple

from ..board import Problem
from ..clock import Clock
from ..meter import Channel, Meter, MeterFault
from ..sysfs import SysFs
from .files import ReadFault, positive, read_number

_BASE = "/sys/class/powercap"
_SHORTEST_S = 0.05  # the counter steps about every millisecond: over less, the steps show
_STEP_J = 61e-6  # of the counters of most processors
_LONGEST_S = 2.0  # an older reading says nothing of now, and far older ones may have wrapped twice
_PACKAGE = re.compile(r"package-[0-9]+(-die-[0-9]+)?")
_MEND = (
    'start the program with sudo, or until the next reboot: sudo chgrp "$(id -gn)" {0} && sudo chmod g+r {0} (for '
    'good: a udev rule SUBSYSTEM=="powercap", KERNEL=="intel-rapl*" that does so)'
)
_STANDS = "see whether it counts: cat {0}/energy_uj; sleep 1; cat {0}/energy_uj"


class Counter:
    """Watts from a counter of microjoules that starts again from 0 past its range.

    The first reading, and one after a pause, take two looks at the counter, 50 ms apart.

    Args:
        zone: Folder with `energy_uj` and `max_energy_range_uj`.
    """

    def __init__(self, sysfs: SysFs, clock: Clock, zone: str) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._zone = zone
        self._last: Optional[Tuple[float, float]] = None

    def look(self) -> None:
        """Remember what the counter says now. Raises MeterFault."""
        self._last = None
        name = self._zone + "/energy_uj"
        energy_uj = read_number(self._sysfs, name, _MEND.format(name))
        self._last = (self._clock.monotonic(), energy_uj)

    def read_w(self) -> float:
        """The mean since the last reading, at least 50 ms and at most 2 s ago. Raises MeterFault."""
        if self._last is None or self._clock.monotonic() - self._last[0] > _LONGEST_S:
            self.look()
        assert self._last is not None
        before_s, before_uj = self._last
        self._clock.sleep(before_s + _SHORTEST_S - self._clock.monotonic())
        self.look()
        now_s, now_uj = self._last
        used_uj = now_uj - before_uj
        if used_uj < 0:
            used_uj += read_number(self._sysfs, self._zone + "/max_energy_range_uj")
        if used_uj < 0 or now_s <= before_s:
            raise MeterFault("{}/energy_uj went from {:.0f} back to {:.0f}".format(self._zone, before_uj, now_uj))
        return used_uj / 1e6 / (now_s - before_s)


def find_rapl(sysfs: SysFs, clock: Clock) -> Tuple[Optional[Meter], List[Problem]]:
    """The meter of the processor packages; None and no problem where there are no counters."""
    zones: Dict[str, List[str]] = {}
    for zone in _zones(sysfs):
        zones.setdefault(sysfs.read_or(zone + "/name") or "", []).append(zone)
    packages = sorted(name for name in zones if _PACKAGE.fullmatch(name))
    if not packages:
        return None, []
    channels: List[Channel] = []
    problems: List[Problem] = []
    counters: List[Counter] = []
    beside = set()
    for package in packages:
        zone, fault = _readable(sysfs, zones[package])
        if fault is not None:  # the total is not the total without it, but doctor shall still show the rail
            problems.append(Problem("{}: {}".format(package, fault), fault.mend))
        counter = Counter(sysfs, clock, zone)
        counters.append(counter)
        channels.append(
            Channel(
                package,
                positive(package, counter.read_w, _STANDS.format(zone)),
                packages == [package],
                _STEP_J / _SHORTEST_S,
            )
        )
        for part in _parts(sysfs, zone):
            label = sysfs.read_or(part + "/name")
            if label and fault is None:
                beside |= {label} & {"dram"}
                counters.append(Counter(sysfs, clock, part))
                channels.append(Channel("{}-{}".format(package, label), counters[-1].read_w))
    if "psys" in zones:
        beside.add("psys")
        counters.append(Counter(sysfs, clock, zones["psys"][0]))
        channels.append(Channel("psys", counters[-1].read_w))
    for counter in counters:  # so that the first reading waits once, not once a channel
        try:
            counter.look()
        except MeterFault:
            pass
    note = "processor power: memory, disks, other chips and the supply's loss are outside"
    if beside:
        note += "; {} not counted in it".format(" and ".join(sorted(beside)) + (" is" if len(beside) == 1 else " are"))
    name = "{} (processor power)".format(" + ".join(packages))
    return Meter(name, channels, packages, statistics=("mean",), note=note), problems


def _zones(sysfs: SysFs) -> List[str]:
    """The outermost zones, the processor's own registers first."""
    names = [name for name in sysfs.list(_BASE) if re.fullmatch(r"[a-z-]*rapl[a-z-]*:[0-9]+", name)]
    names.sort(key=lambda name: (not name.startswith("intel-rapl:"), name))
    return ["{}/{}".format(_BASE, name) for name in names]


def _parts(sysfs: SysFs, zone: str) -> List[str]:
    own = zone.rpartition("/")[2]
    return ["{}/{}".format(zone, name) for name in sysfs.list(zone) if re.fullmatch(re.escape(own) + ":[0-9]+", name)]


def _readable(sysfs: SysFs, zones: List[str]) -> Tuple[str, Optional[ReadFault]]:
    """The first zone whose counter can be read; else the first, and why it cannot."""
    first: Optional[ReadFault] = None
    for zone in zones:
        name = zone + "/energy_uj"
        try:
            read_number(sysfs, name, _MEND.format(name))
        except ReadFault as fault:
            first = first or fault
        else:
            return zone, None
    return zones[0], first
