"""Temperatures of a board, how hot it may become, and the signs by which it says that it slows down."""

import re
from typing import Dict, List, NamedTuple, Optional

from .sysfs import SysFs

# Each zone has a link in the first; the second is where they really are.
_FOLDERS = ("/sys/class/thermal", "/sys/devices/virtual/thermal")
_COLDEST_C, _HOTTEST_C = -40.0, 150.0  # beyond them it is no temperature: a sensor that is off, or garbage
_BELOW_TRIP_C = 5.0
DEFAULT_LIMIT_C = 95.0
_ALERT = re.compile(r"throttle-alert|^devfreq-|^(thermal-)?cpufreq-")


class Zone(NamedTuple):
    """A thermal zone that has a value now.

    Attributes:
        name: Its type: `tj-thermal`. Numbers change from release to release.
        temperature_c: Now.
        limit_c: Where a burst shall end: 5 C below the trip point at which the kernel acts hard, else 95 C.
    """

    name: str
    temperature_c: float
    limit_c: float


def zones(sysfs: SysFs) -> List[Zone]:
    """All zones that can be read now. Left out: unpowered ones (EAGAIN), and the PMIC, which reads a constant."""
    found = []
    for folder in _entries(sysfs, "thermal_zone"):
        name = sysfs.read_or(folder + "/type") or ""
        temperature_c = _celsius(sysfs.read_or(folder + "/temp"))
        if name and temperature_c is not None and not name.lower().startswith("pmic"):
            found.append(Zone(name, temperature_c, _limit_c(sysfs, folder)))
    return found


def temperatures(sysfs: SysFs) -> Dict[str, float]:
    """Temperatures in C, by the zone's type; the hottest of those that share one."""
    found: Dict[str, float] = {}
    for zone in zones(sysfs):
        found[zone.name] = max(zone.temperature_c, found.get(zone.name, zone.temperature_c))
    return found


def limits(sysfs: SysFs) -> Dict[str, float]:
    """Where a burst shall end, in C, by the zone's type; zones that have no value now included."""
    found: Dict[str, float] = {}
    for folder in _entries(sysfs, "thermal_zone"):
        name = sysfs.read_or(folder + "/type")
        if name:
            limit_c = _limit_c(sysfs, folder)
            found[name] = min(limit_c, found.get(name, limit_c))
    return found


def hottest(sysfs: SysFs) -> Optional[Zone]:
    """The zone that is nearest to its limit, or None where no temperature can be read."""
    return max(zones(sysfs), key=lambda zone: zone.temperature_c - zone.limit_c, default=None)


def alert_files(sysfs: SysFs) -> Dict[str, str]:
    """Cooling devices whose state above 0 means a clock that is held down: state file -> type."""
    found = {}
    for folder in _entries(sysfs, "cooling_device"):
        name = sysfs.read_or(folder + "/type") or ""
        if _ALERT.search(name):
            found[folder + "/cur_state"] = name
    return found


def over_current_files(sysfs: SysFs) -> Dict[str, str]:
    """Counters of over-current events since boot: file -> what they count, in words."""
    meanings = {1: "under-voltage", 2: "average over-current", 3: "instantaneous over-current"}
    found = {}
    for entry in sysfs.list("/sys/class/hwmon"):
        folder = "/sys/class/hwmon/" + entry
        if sysfs.read_or(folder + "/name") != "soctherm_oc":
            continue
        for name in sysfs.list(folder):
            match = re.match(r"oc(\d+)_event_cnt$", name)
            if match:
                number = int(match.group(1))
                found["{}/{}".format(folder, name)] = "OC{} {}".format(number, meanings.get(number, "event")).strip()
    return found


def _entries(sysfs: SysFs, start: str) -> List[str]:
    for folder in _FOLDERS:
        names = [name for name in sysfs.list(folder) if name.startswith(start)]
        if names:
            return ["{}/{}".format(folder, name) for name in names]
    return []


def _celsius(text: Optional[str]) -> Optional[float]:
    if text is None or not re.match(r"-?\d{1,9}$", text):
        return None
    value = int(text) / 1000.0
    return value if _COLDEST_C < value < _HOTTEST_C else None


def _limit_c(sysfs: SysFs, folder: str) -> float:
    found = []
    for name in sysfs.list(folder):
        if re.match(r"trip_point_\d+_type$", name) and sysfs.read_or("{}/{}".format(folder, name)) in (
            "hot",
            "critical",
        ):
            trip_c = _celsius(sysfs.read_or("{}/{}".format(folder, name[: -len("type")] + "temp")))
            if trip_c is not None and trip_c > 40.0:  # firmware writes 0 where it means none
                found.append(trip_c - _BELOW_TRIP_C)
    return min(found) if found else DEFAULT_LIMIT_C
