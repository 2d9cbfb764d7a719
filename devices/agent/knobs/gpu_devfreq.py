"""`gpu_freq_mhz` of a Jetson: the GPU's devfreq, found by what it says of itself, on every JetPack."""

import re
from typing import List, Optional, Sequence, Tuple

from ..clock import Clock
from ..sysfs import SysFs
from ._files import NoValue, Unusable, is_jetson, read_ints
from ._limits import Limits, LimitsKnob

DEVFREQ = "/sys/class/devfreq/"
_CHIPS = ("gv11b", "gp10b", "ga10b", "gb10b", "gpu")
_PCI = re.compile(r"/([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/)")
_SEE_DRIVER = (
    "see why the driver shows none: sudo dmesg | grep -i -e gpu -e devfreq; a driver that failed needs a reboot"
)


class GpuDevfreq(LimitsKnob):
    """The clock of the GPU; where it has several domains, that of its graphics clusters (Thor: gpu-gpc-*).

    Args:
        sysfs, clock: Files and time.
        folders: Of the domains, below /sys/class/devfreq; they are held together.
        table: Steps in Hz that all have.
    """

    name = "gpu_freq_mhz"
    part = "GPU"

    def __init__(self, sysfs: SysFs, clock: Clock, folders: Sequence[str], table: Sequence[int]) -> None:
        super().__init__(sysfs, clock, table)
        self._folders = list(folders)

    @classmethod
    def find(cls, sysfs: SysFs, clock: Clock) -> Optional["GpuDevfreq"]:
        """The knob of this board; None where there is no such GPU.

        Raises:
            Unusable: there is one, or should be one, but it shows no clocks.
        """
        folders = gpu_folders(sysfs)
        if not folders and is_jetson(sysfs):
            raise Unusable("no GPU clock was found in {}".format(DEVFREQ.rstrip("/")), _SEE_DRIVER)
        if not folders:
            return None
        return cls(sysfs, clock, folders, devfreq_table(sysfs, folders, "GPU"))

    def clocks(self) -> List[Limits]:
        return [devfreq_limits(folder) for folder in self._folders]

    def switches(self) -> List[Tuple[str, str]]:
        found = []
        for folder in self._folders:
            device = _device(self._sysfs, folder)
            wanted = [(device + "/railgate_enable", "0"), (device + "/power/control", "on")]
            on_pci = _PCI.findall(_canonical(self._sysfs, folder))[-1:]  # as Thor's
            wanted += [("/sys/bus/pci/devices/{}/power/control".format(address), "on") for address in on_pci]
            found += [switch for switch in wanted if self._sysfs.read_or(switch[0])]
        return list(dict(found).items())


def gpu_folders(sysfs: SysFs) -> List[str]:
    """The devfreq folders of the GPU's clock: by the device tree's name, on Thor by their own."""
    domains, exact, alike = [], [], []
    for entry in sysfs.list(DEVFREQ):
        folder = DEVFREQ + entry
        name = sysfs.read_or(folder + "/device/of_node/name") or ""
        if entry.startswith("gpu-"):  # Thor: a domain of several
            domains += [folder] if entry.startswith("gpu-gpc-") else []
        elif name in _CHIPS:
            exact.append(folder)
        elif "gpu" in name:
            alike.append(folder)
    return domains or (exact + alike)[:1]


def devfreq_limits(folder: str) -> Limits:
    """The files of a devfreq folder, Hz."""
    return Limits(*("{}/{}_freq".format(folder, end) for end in ("min", "max", "cur")))


def devfreq_table(sysfs: SysFs, folders: Sequence[str], what: str) -> List[int]:
    """The steps in Hz that all the folders list.

    Raises:
        Unusable: one lists none, or they have none in common.
    """
    tables = []
    for folder in folders:
        try:
            tables.append(set(read_ints(sysfs, folder + "/available_frequencies")))
        except NoValue as error:
            raise Unusable("the {} has no clock to set: {}".format(what, error), _SEE_DRIVER) from error
    common = sorted(set.intersection(*tables))
    if not common:
        raise Unusable("{} have no frequency in common".format(" and ".join(folders)), _SEE_DRIVER)
    return common


def _device(sysfs: SysFs, folder: str) -> str:
    """The device whose clock a devfreq folder is: by its link, else two folders above."""
    if sysfs.list(folder + "/device"):
        return folder + "/device"
    return _canonical(sysfs, folder).rsplit("/", 2)[0]


def _canonical(sysfs: SysFs, folder: str) -> str:
    try:
        return sysfs.canonical(folder)
    except OSError:  # a loop of links
        return folder
