"""`cpu_freq_mhz`: the clock of all CPUs together, by cpufreq, on boards and PCs alike."""

import errno
import re
from typing import List, Optional, Set

from ..clock import Clock
from ..sysfs import SysFs
from ._files import NoValue, Unusable, read_int, read_ints
from ._limits import GONE, Limits, LimitsKnob

CPUS = "/sys/devices/system/cpu/"
_STEP_KHZ = 100000  # where the driver has no table
_SEE_POLICY = "see what the driver shows: grep . {}/*; without a table the CPU clock stays as it is"


class CpuFreq(LimitsKnob):
    """The clock of every policy. Policies come and go with their CPUs."""

    name = "cpu_freq_mhz"
    part = "CPU"
    unit_hz = 1000
    tolerance = 0.05  # drivers that count cycles show a mean of the last milliseconds
    parts_idle = True

    @classmethod
    def find(cls, sysfs: SysFs, clock: Clock) -> Optional["CpuFreq"]:
        """The knob of this machine; None where no CPU has a clock that can be set.

        Raises:
            Unusable: they have one, but it shows no steps, or they have no step in common.
        """
        folders = _policies(sysfs)
        tables: List[Set[int]] = []
        missing: Optional[Unusable] = None
        for folder in folders:
            try:
                tables.append(set(_table(sysfs, folder)))
            except NoValue as error:
                missing = missing or Unusable(
                    "the CPU clock has no steps: {}".format(error), _SEE_POLICY.format(folder)
                )
                if not _asleep(sysfs, folder):
                    raise missing from error
        if not tables:
            if missing is not None:
                raise missing
            return None
        common = sorted(set.intersection(*tables))
        if not common:
            text = "the CPUs have no clock in common: {}".format(", ".join(folders))
            raise Unusable(text, _SEE_POLICY.format(folders[0]))
        return cls(sysfs, clock, common)

    def clocks(self) -> List[Limits]:
        return [_limits(folder) for folder in _policies(self._sysfs) if not _asleep(self._sysfs, folder)]

    def files(self) -> List[str]:
        """Those of sleeping policies too: their CPUs may be switched on."""
        return [name for folder in _policies(self._sysfs) for name in _limits(folder)[:2]]


def related_cpus(sysfs: SysFs) -> List[Set[int]]:
    """The CPUs that share a clock, cluster by cluster, those that are off too; as far as their policies tell."""
    texts = [sysfs.read_or(folder + "/related_cpus") or "" for folder in _policies(sysfs)]
    return [set(map(int, text.split())) for text in texts if re.match(r"\d{1,5}(\s+\d{1,5})*$", text)]


def _policies(sysfs: SysFs) -> List[str]:
    """The folders of all policies; each once."""
    found = [CPUS + "cpufreq/" + name for name in sysfs.list(CPUS + "cpufreq") if re.match(r"policy\d+$", name)]
    if not found:  # older kernels list them only below their CPUs; those that share one are links to it
        for name in sysfs.list(CPUS):
            folder = "{}{}/cpufreq".format(CPUS, name)
            if re.match(r"cpu\d+$", name) and sysfs.list(folder):
                found.append(folder)
    return found


def _limits(folder: str) -> Limits:
    return Limits(*("{}/scaling_{}_freq".format(folder, end) for end in ("min", "max", "cur")))


def _asleep(sysfs: SysFs, folder: str) -> bool:
    """Whether all CPUs of a policy are switched off. Kernel 4.9 still shows its limits then, and takes none."""
    try:
        return sysfs.read(folder + "/affected_cpus") == ""
    except OSError as error:
        return error.errno in GONE and error.errno != errno.ENOENT


def _table(sysfs: SysFs, folder: str) -> List[int]:
    """Steps of a policy in kHz. Drivers that choose the clock themselves (intel_pstate, amd-pstate) have no table:
    then its range in steps of 100 MHz.

    Raises:
        NoValue: it shows neither.
    """
    listed = folder + "/scaling_available_frequencies"
    try:
        return read_ints(sysfs, listed)
    except NoValue as error:
        if error.number is None:  # it is there, and holds something else
            raise
        try:
            low, high = (read_int(sysfs, "{}/cpuinfo_{}_freq".format(folder, end)) for end in ("min", "max"))
        except NoValue as other:
            if other.number == errno.ENOENT:
                text = "{} shows neither scaling_available_frequencies nor cpuinfo_min_freq and cpuinfo_max_freq"
                raise NoValue(text.format(folder), errno.ENOENT) from other
            raise
    if not 0 < low <= high:
        raise NoValue("{}/cpuinfo_min_freq and cpuinfo_max_freq hold {} and {}, no range".format(folder, low, high))
    between = range(low // _STEP_KHZ * _STEP_KHZ + _STEP_KHZ, high, _STEP_KHZ)
    return sorted({low, *between, high})
