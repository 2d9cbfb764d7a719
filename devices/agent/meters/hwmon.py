"""Meters of other machines: a power monitor soldered on or attached (INA219, INA226, ...), ACPI, a laptop's battery.

Most chips that give a power measure some part (a graphics card, a regulator): only those whose purpose is known
are taken.
"""

import re
from typing import Callable, List, Optional, Tuple

from ..board import Problem
from ..clock import Clock
from ..meter import Channel, Meter, MeterFault
from ..sysfs import SysFs
from .files import ReadFault, interval_s, positive, read_number
from .ina3221 import hwmon_chips, power_reader

_MONITOR = r"ina[27][0-9]{2}"
_WHOLE_MACHINE = r"power_meter|corsairpsu"  # ACPI; a power supply that measures itself
_SUPPLIES = "/sys/class/power_supply"
_MEND_BATTERY = "pull the plug, or name an external meter: a command or an HTTP address that gives watts"
_BATTERY_LAG_S = 5.0  # assumed: fuel gauges report every few seconds


def find_monitor(sysfs: SysFs, clock: Clock) -> Tuple[Optional[Meter], List[Problem]]:
    """The one power monitor that somebody put into the supply of this board; None and no problem without any."""
    note = "what the {} is wired to: on a Raspberry Pi the whole board, if it sits in its supply"
    return _one_chip(sysfs, _MONITOR, note)


def find_whole_machine(sysfs: SysFs, clock: Clock) -> Tuple[Optional[Meter], List[Problem]]:
    """A meter of the whole machine that its maker built in; None and no problem without any."""
    return _one_chip(sysfs, _WHOLE_MACHINE, "the whole machine, as its {} reports")


def _one_chip(sysfs: SysFs, names: str, note: str) -> Tuple[Optional[Meter], List[Problem]]:
    found = []
    for chip in hwmon_chips(sysfs, names):
        files = [file for file in ("power1_input", "power1_average") if sysfs.exists("{}/{}".format(chip, file))]
        if files or re.fullmatch(_MONITOR, sysfs.read_or(chip + "/name") or ""):
            found.append((chip, "{}/{}".format(chip, (files + ["power1_input"])[0])))
    if not found:
        return None, []
    if len(found) > 1:
        chips = ", ".join("{} ({})".format(chip, sysfs.read_or(chip + "/name")) for chip, _ in found)
        mend = "name one as an external meter: a command that prints its power1_input, divided by 1e6, again and again"
        return None, [Problem("several power monitors, and none is known to be the total: {}".format(chips), mend)]
    chip, file = found[0]
    name = sysfs.read_or(chip + "/name") or ""
    rail = sysfs.read_or(chip + "/power1_label") or name
    channel = Channel(rail, positive(rail, power_reader(sysfs, file), "cat " + file), True)
    return Meter("{} ({})".format(rail, chip), [channel], [rail], lag_s=_lag_s(sysfs, chip), note=note.format(name)), []


def _lag_s(sysfs: SysFs, chip: str) -> float:
    try:
        return read_number(sysfs, chip + "/power1_average_interval") / 1e3
    except MeterFault:
        return interval_s(sysfs, chip) or 0.0


def find_battery(sysfs: SysFs, clock: Clock) -> Tuple[Optional[Meter], List[Problem]]:
    """The batteries of a laptop, which measure only while they discharge; None and no problem without any."""
    found = [name for name in sysfs.list(_SUPPLIES) if re.fullmatch(r"BAT[0-9A-Z]*", name)]
    total = [name for name in found if sysfs.read_or("{}/{}/present".format(_SUPPLIES, name)) != "0"]
    if not total:
        return None, []
    folders = ["{}/{}".format(_SUPPLIES, name) for name in total]
    channels = [
        Channel(name, _battery_reader(sysfs, folder, folders), len(total) == 1) for name, folder in zip(total, folders)
    ]
    note = "the whole laptop with its screen; updated every few seconds, and only while the plug is out"
    return Meter("{} (battery)".format(" + ".join(total)), channels, total, lag_s=_BATTERY_LAG_S, note=note), []


def _battery_reader(sysfs: SysFs, folder: str, all_folders: List[str]) -> Callable[[], float]:
    """Watts out of one battery: 0 while another one is used in its place."""

    def read_w() -> float:
        statuses = {each: sysfs.read_or(each + "/status") or "unknown" for each in all_folders}
        if "Charging" in statuses.values() or "Discharging" not in statuses.values():
            said = ", ".join("{}/status says {}".format(each, status) for each, status in statuses.items())
            raise ReadFault("a battery measures the laptop only while it discharges; {}".format(said), _MEND_BATTERY)
        if statuses[folder] != "Discharging":
            return 0.0
        if sysfs.exists(folder + "/power_now"):
            watts = read_number(sysfs, folder + "/power_now") / 1e6
        else:
            current_ua = read_number(sysfs, folder + "/current_now")
            watts = current_ua * read_number(sysfs, folder + "/voltage_now") / 1e12
        if not watts:
            raise ReadFault("{} discharges with 0 W: its gauge does not measure".format(folder), _MEND_BATTERY)
        return abs(watts)  # some drivers give what flows out of the battery a minus sign

    return read_w
