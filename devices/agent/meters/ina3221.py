"""INA3221, the three-channel monitor of Jetson modules, in both driver layouts; and INA238, the total of Thor.

hwmon (JetPack 5 and later): `in{n}_label`, `in{n}_input` mV, `curr{n}_input` mA, n = 1 to 3; no file of power. in4 to
in7 are shunt voltages. iio (JetPack 4): `rail_name_{n}`, `in_power{n}_input` mW, n = 0 to 2. Chips are found by their
name and rails by their label: the numbers of hwmon change from boot to boot.
"""

import os
import re
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ..board import Problem
from ..clock import Clock
from ..meter import Channel, Meter
from ..sysfs import SysFs
from .files import ReadFault, interval_s, positive, read_number

_INPUTS = {  # the rail through which everything in the module is fed, the others included
    "VDD_IN": "module power: carrier board, fan, SSD and USB are outside; the other rails are inside VDD_IN",
    "POM_5V_IN": "module power: what the carrier board feeds itself is outside; the other rails are inside POM_5V_IN",
}
_SUMS = (  # modules without such a rail: rails of which none contains another
    (
        ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
        "this module has no rail for its input: the total is the sum of its six rails; the carrier board is outside",
    ),
    (
        ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
        "this module has no rail for its input: the total is VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0; VDDQ_VDD2_1V8AO "
        "is fed by VIN_SYS_5V0 and not counted again; the carrier board is outside",
    ),
)
_INPUT_BY_NAME = re.compile(r"(?:.*_)?V?IN")  # of a board that is not known; VIN_SYS_5V0 is no input, but a rail
_TOTAL_238 = "INA238 VIN"

_CONVERSION_S = 2 * 140e-6  # of one channel: bus and shunt voltage, as the chip starts up
_LAG_S = (
    3 * 512 * _CONVERSION_S
)  # with 512 samples of three channels, as JetPack sets it; assumed where nothing is said
_SHUNT_STEP_V = 40e-6  # of the converter; on 5 milliohm, as most modules have it, 8 mA
_SHUNT_UOHM, _RAIL_MV = 5000.0, 5000.0  # assumed where nothing is said
_MEND_IIO = "start the program with sudo, or until the next reboot: sudo chmod a+r {}/in_power*_input"
_NO_TOTAL = "tune without a cap, or name an external meter: a command or an HTTP address that gives watts"


class Rail(NamedTuple):
    """A labelled channel that is on.

    Attributes:
        label: As the board names it: `VDD_IN`.
        chip: The folder of its chip.
        read_w: Watts now. Raises MeterFault.
        mend: What shows more where it reads 0 W.
        resolution_w: The step of its readings.
    """

    label: str
    chip: str
    read_w: Callable[[], float]
    mend: str
    resolution_w: float


def find_ina3221(sysfs: SysFs, clock: Clock) -> Tuple[Optional[Meter], List[Problem]]:
    """The meter of a Jetson module; None and no problem where there is no such chip."""
    rails: List[Rail] = []
    skipped: List[str] = []
    chips = _chips(sysfs)
    for chip, layout in chips:
        found, off = (_hwmon_rails if layout == "hwmon" else _iio_rails)(sysfs, chip)
        rails += found
        skipped += off
    if not chips:
        return None, []
    names = _unique_names(rails)
    monitors = hwmon_chips(sysfs, "ina238")
    total, note = _total([rail.label for rail in rails], names)
    channels = [
        Channel(
            name,
            positive(name, rail.read_w, rail.mend) if [name] == total else rail.read_w,
            [name] == total,
            rail.resolution_w,
        )
        for name, rail in zip(names, rails)
    ]
    if not total and len(monitors) == 1:
        power = monitors[0] + "/power1_input"
        read_w = positive(_TOTAL_238, power_reader(sysfs, power), "cat " + power)
        channels.insert(0, Channel(_TOTAL_238, read_w, True))
        total, note = [_TOTAL_238], "module power, measured at its input by an INA238; the carrier board is outside"
    if not total:
        what = "the rails {} have no known total ({})".format(
            ", ".join(names) or "(none with a label)", ", ".join(chip for chip, _ in chips)
        )
        return None, [Problem("; ".join([what] + skipped), _NO_TOTAL)]
    name = total[0] + " (module input)" if len(total) == 1 else " + ".join(total)
    measuring = [monitors[0]] if total == [_TOTAL_238] else [rail.chip for rail in rails if rail.label in total]
    return Meter(name, channels, total, lag_s=max(_lag_s(sysfs, chip) for chip in measuring), note=note), []


def hwmon_chips(sysfs: SysFs, name: str) -> List[str]:
    """The folders of all hwmon chips whose name matches the regular expression, each chip once."""
    found: Dict[str, str] = {}
    for entry in sysfs.list("/sys/class/hwmon"):
        folder = "/sys/class/hwmon/" + entry
        if re.fullmatch(name, sysfs.read_or(folder + "/name") or ""):
            found.setdefault(sysfs.canonical(folder), folder)
    return list(found.values())


def power_reader(sysfs: SysFs, name: str) -> Callable[[], float]:
    """Watts from a file of microwatts."""
    return lambda: read_number(sysfs, name) / 1e6


def _chips(sysfs: SysFs) -> List[Tuple[str, str]]:
    """Folder and layout of every INA3221, each once however many paths lead there."""
    found = {sysfs.canonical(chip): (chip, "hwmon") for chip in hwmon_chips(sysfs, "ina3221")}
    for driver, sub_folder in (("ina3221", "hwmon"), ("ina3221x", "iio")):
        base = "/sys/bus/i2c/drivers/" + driver
        for device in sysfs.list(base):
            folder = "{}/{}".format(base, device)
            if sub_folder == "hwmon":
                folder += "/hwmon"
            for entry in sysfs.list(folder):
                if re.fullmatch(r"hwmon[0-9]+|iio:device[0-9]+", entry):
                    chip = "{}/{}".format(folder, entry)
                    found.setdefault(sysfs.canonical(chip), (chip, sub_folder))
    return sorted(found.values(), key=lambda chip: _address(sysfs, chip[0]))


def _address(sysfs: SysFs, chip: str) -> str:
    """`1-0040`: bus and address on it, so that the order is the board's, not that of the boot; else the folder."""
    found = re.findall(r"/([0-9]+-[0-9a-f]{4})(?=/|$)", sysfs.canonical(chip))
    return found[-1] if found else chip


def _label(sysfs: SysFs, name: str) -> Tuple[Optional[str], List[str]]:
    """What a label says, None where the channel is not connected; and why it cannot be read."""
    try:
        label = sysfs.read(name)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        return None, ["{} cannot be read: {}".format(name, os.strerror(error.errno) if error.errno else error)]
    return (None if label.upper() in ("", "NC") else label), []


def _hwmon_rails(sysfs: SysFs, chip: str) -> Tuple[List[Rail], List[str]]:
    rails = []
    skipped = []
    for n in (1, 2, 3):
        label, why = _label(sysfs, "{}/in{}_label".format(chip, n))
        skipped += why
        if label is None:
            continue
        switch = "{}/in{}_enable".format(chip, n)
        if sysfs.read_or(switch) == "0":
            skipped.append("{} is switched off: echo 1 | sudo tee {}".format(label, switch))
            continue
        mend = "cat {0}/in{1}_input {0}/curr{1}_input".format(chip, n)
        step_w = _resolution_w(sysfs, "{}/in{}_input".format(chip, n), "{}/shunt{}_resistor".format(chip, n))
        rails.append(Rail(label, chip, _hwmon_reader(sysfs, chip, n), mend, step_w))
    return rails, skipped


def _hwmon_reader(sysfs: SysFs, chip: str, n: int) -> Callable[[], float]:
    voltage = "{}/in{}_input".format(chip, n)
    current = "{}/curr{}_input".format(chip, n)

    def read_w() -> float:
        millivolts = read_number(sysfs, voltage)
        if millivolts <= 0:  # a rail without current is idle, one without voltage is not measured
            raise ReadFault(
                "{} reads {:g} mV: no rail of a running machine does".format(voltage, millivolts), "cat " + voltage
            )
        return millivolts * read_number(sysfs, current) / 1e6

    return read_w


def _iio_rails(sysfs: SysFs, chip: str) -> Tuple[List[Rail], List[str]]:
    rails = []
    skipped = []
    for n in (0, 1, 2):
        label, why = _label(sysfs, "{}/rail_name_{}".format(chip, n))
        skipped += why
        if label is not None:
            mend = "cat {}/in_power{}_input".format(chip, n)
            step_w = _resolution_w(sysfs, "{}/in_voltage{}_input".format(chip, n), None)
            rails.append(Rail(label, chip, _iio_reader(sysfs, chip, n), mend, step_w))
    return rails, skipped


def _iio_reader(sysfs: SysFs, chip: str, n: int) -> Callable[[], float]:
    mend = _MEND_IIO.format(chip)
    return lambda: read_number(sysfs, "{}/in_power{}_input".format(chip, n), mend) / 1e3


def _resolution_w(sysfs: SysFs, voltage: str, shunt: Optional[str]) -> float:
    """Watts from one step of the converter to the next, at the voltage of now."""

    def number(name: Optional[str], otherwise: float) -> float:
        try:
            return (read_number(sysfs, name) if name is not None else 0.0) or otherwise
        except ReadFault:  # the reading itself will tell
            return otherwise

    return number(voltage, _RAIL_MV) / 1e3 * _SHUNT_STEP_V / (number(shunt, _SHUNT_UOHM) / 1e6)


def _unique_names(rails: List[Rail]) -> List[str]:
    labels = [rail.label for rail in rails]
    return [
        rail.label if labels.count(rail.label) == 1 else "{} ({}.{})".format(rail.label, os.path.basename(rail.chip), i)
        for i, rail in enumerate(rails)
    ]


def _total(labels: List[str], names: List[str]) -> Tuple[List[str], Optional[str]]:
    """Names whose sum is the total, and what to say of it; none where it is not clear, or a label occurs twice."""
    for rail, note in _INPUTS.items():
        if rail in labels:
            return ([rail] if rail in names else []), note
    for rails, note in _SUMS:
        if set(rails) & set(labels) == set(rails):
            return (list(rails) if set(rails) <= set(names) else []), note
    inputs = [label for label in labels if _INPUT_BY_NAME.fullmatch(label)]
    if len(inputs) == 1:
        return inputs, "this board is not known: by its name {} is taken for the input of all other rails".format(
            inputs[0]
        )
    return [], None


def _lag_s(sysfs: SysFs, chip: str) -> float:
    """Over how long a chip averages, which is about the time constant of its readings."""
    said = interval_s(sysfs, chip)
    if said:
        return said
    try:
        return 3 * read_number(sysfs, chip + "/samples") * _CONVERSION_S
    except ReadFault:
        return _LAG_S
