"""`emc_freq_mhz`: the memory clock of a Jetson, as important as the GPU's. Generations differ in their files."""

import os
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from ..board import BoardKnob, Fault, Problem
from ..clock import Clock
from ..failures import AgentError
from ..identity import identify
from ..sysfs import SysFs
from ._files import (
    NO_RIGHT,
    NOT_APPLIED,
    NoValue,
    Unusable,
    not_writable,
    open_range,
    read_int,
    read_ints,
    wider_mode,
    write,
)
from ._limits import Limits, LimitsKnob
from .gpu_devfreq import DEVFREQ, devfreq_limits, devfreq_table

CAPS = ("/sys/kernel/nvpmodel_clk_cap/emc", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap")  # Hz; 0: none
_TOLERANCE = 0.015
_SETTLE_S = 0.5
_POLL_S = 0.05

# Rates in Hz as seen on boards, for kernels that do not list them; those beyond the board's own ends are left out.
_RATES = {
    "tegra234": (204000000, 665600000, 2133000000, 3199000000),
    "tegra194": (204000000, 800000000, 1333000000, 1600000000, 1866000000, 2133000000),
    "tegra186": (408000000, 665600000, 800000000, 1062400000, 1331200000, 1600000000, 1866000000),
}


class _Variant(NamedTuple):
    """The files by which a memory clock is locked.

    Attributes:
        lock: Holds 1 while the clock is locked.
        rate: Takes the rate, Hz.
        low, high: Ends of the range, Hz.
        table: Lists the rates, where there is such a file.
        order: Files to write, in this order; `rate` gets the rate, the others 1.
        now: Files that show the clock, the first that can be read.
    """

    lock: str
    rate: str
    low: str
    high: str
    table: Optional[str]
    order: Tuple[str, ...]
    now: Tuple[str, ...]


_BPMP = "/sys/kernel/debug/bpmp/debug/clk/emc/"
_OVERRIDE = "/sys/kernel/debug/clk/override.emc/"
_BANDWIDTH = "/sys/kernel/debug/tegra_bwmgr/emc_"
_VARIANTS = (
    _Variant(
        lock=_BPMP + "mrq_rate_locked",
        rate=_BPMP + "rate",
        low=_BPMP + "min_rate",
        high=_BPMP + "max_rate",
        table=_BPMP + "possible_rates",
        order=(_BPMP + "mrq_rate_locked", _BPMP + "rate", _BPMP + "state"),
        now=(_BPMP + "rate",),
    ),
    _Variant(  # Nano, TX1
        lock=_OVERRIDE + "clk_state",
        rate=_OVERRIDE + "clk_update_rate",
        low=_BANDWIDTH + "min_rate",
        high=_BANDWIDTH + "max_rate",
        table=None,
        order=(_OVERRIDE + "clk_update_rate", _OVERRIDE + "clk_state"),
        now=(_OVERRIDE + "clk_rate", _OVERRIDE + "clk_update_rate"),
    ),
)


class Emc(BoardKnob):
    """The memory clock, locked through debugfs.

    Args:
        sysfs, clock: Files and time.
        variant: Its files.
        table: Rates in Hz, ascending.
    """

    name = "emc_freq_mhz"

    def __init__(self, sysfs: SysFs, clock: Clock, variant: _Variant, table: Sequence[int]) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._variant = variant
        self._numbers = {rate / 1e6: rate for rate in table}
        self._touched = False
        self._rate_is_kept = False
        self.steps = sorted(self._numbers)

    @staticmethod
    def find(sysfs: SysFs, clock: Clock) -> Optional[Union["Emc", "EmcDevfreq"]]:
        """The knob of this board; None where its memory clock cannot be set.

        Raises:
            Unusable: it has one, but shows no rates, or only to root.
        """
        soc = identify(sysfs).soc or ""
        if not soc.startswith("tegra"):
            return None
        for entry in sysfs.list(DEVFREQ):
            name = sysfs.read_or(DEVFREQ + entry + "/device/of_node/name") or ""
            if "bwmgr" in entry or "bwmgr" in name:  # Thor
                return EmcDevfreq(sysfs, clock, DEVFREQ + entry)
        for variant in _VARIANTS:
            number = sysfs.refusal(variant.lock)
            if number in NO_RIGHT:
                text = "the memory clock can only be read and set by root: {}".format(variant.lock)
                raise Unusable(text, "run the agent with root's rights: sudo")
            if sysfs.read_or(variant.lock) is not None:
                return Emc(sysfs, clock, variant, _table(sysfs, variant, soc))
        return None

    def allowed(self) -> Tuple[float, float]:
        cap = _cap(self._sysfs)
        return open_range(self.steps, None, cap[1] / 1e6 if cap else None)

    def files(self) -> List[str]:
        """The rate only where it was locked when found: else it moves by itself, and must not be put back."""
        if not self._touched:
            self._rate_is_kept = self._sysfs.read_or(self._variant.lock) == "1"
        order = self._variant.order
        return [name for name in order if name != self._variant.rate or self._rate_is_kept]

    def hold(self, value: float) -> None:
        rate = self._rate(value)
        self.files()  # settles what is kept
        self._touched = True
        for name in self._variant.order:
            if name == self._variant.rate or self._sysfs.read_or(name) is not None:  # not every kernel has all
                write(self._sysfs, name, str(rate) if name == self._variant.rate else "1")
        end = self._clock.monotonic() + _SETTLE_S
        while self.fault(value, False) is not None and self._clock.monotonic() < end:
            self._clock.sleep(_POLL_S)

    def fault(self, value: float, loaded: bool) -> Optional[Fault]:
        rate = self._rate(value)
        try:
            locked, now = read_int(self._sysfs, self._variant.lock), self._now()
        except NoValue as error:
            return Fault(NOT_APPLIED, str(error))
        if locked != 1:
            when = "reset during the burst" if loaded else "not held"
            text = "{}: {} holds {}, so the memory clock is not locked at {:g} MHz"
            return Fault(NOT_APPLIED, text.format(when, self._variant.lock, locked, value))
        if abs(now - rate) > _TOLERANCE * rate:
            text = "memory clock: asked {:g} MHz, got {:g} MHz ({}); the power mode (nvpmodel) may cap it"
            return Fault(NOT_APPLIED, text.format(value, now / 1e6, self._variant.rate))
        return None

    def problems(self) -> List[Problem]:
        return not_writable(self._sysfs, [self._variant.lock, self._variant.rate])

    def narrowed(self) -> List[Problem]:
        cap = _cap(self._sysfs)
        if cap is None or self.allowed()[1] >= self.steps[-1]:
            return []
        text = "{} has steps up to {:g} MHz, but the power mode caps it at {:g} MHz ({})"
        return [Problem(text.format(self.name, self.steps[-1], cap[1] / 1e6, cap[0]), wider_mode(self._sysfs))]

    def _now(self) -> int:
        for name in self._variant.now[:-1]:
            if self._sysfs.read_or(name):
                return read_int(self._sysfs, name)
        return read_int(self._sysfs, self._variant.now[-1])

    def _rate(self, value: float) -> int:
        if value not in self._numbers:
            steps = ", ".join("{:g}".format(step) for step in self.steps)
            raise AgentError("input", "{} has no step {:g}".format(self.name, value), "steps: {}".format(steps))
        return self._numbers[value]


class EmcDevfreq(LimitsKnob):
    """The memory clock of Thor: a devfreq device, as the GPU's.

    Args:
        sysfs, clock: Files and time.
        folder: Below /sys/class/devfreq.

    Raises:
        Unusable: it shows no clocks.
    """

    name = Emc.name
    part = "memory"

    def __init__(self, sysfs: SysFs, clock: Clock, folder: str) -> None:
        super().__init__(sysfs, clock, devfreq_table(sysfs, [folder], "memory"))
        self._folder = folder

    def clocks(self) -> List[Limits]:
        return [devfreq_limits(self._folder)]


def _table(sysfs: SysFs, variant: _Variant, soc: str) -> List[int]:
    """The rates in Hz between the board's ends: as the kernel lists them, else as they are known."""
    mend = "see what the kernel shows: sudo grep . {}/*; without its ends the memory clock stays as it is"
    try:
        low, high = read_int(sysfs, variant.low), read_int(sysfs, variant.high)
        if not 0 < low <= high:
            raise NoValue("{} and {} hold {} and {}, no range".format(variant.low, variant.high, low, high))
        rates: Sequence[int] = (low, *_RATES.get(soc, ()), high)
        if variant.table is not None and sysfs.read_or(variant.table) is not None:
            rates = read_ints(sysfs, variant.table)
    except NoValue as error:
        text = "the memory clock has no steps: {}".format(error)
        raise Unusable(text, mend.format(os.path.dirname(variant.low))) from error
    found = sorted({rate for rate in rates if low <= rate <= high})
    if not found:
        text = "{} lists no rate between {} and {} Hz".format(variant.table, low, high)
        raise Unusable(text, mend.format(os.path.dirname(variant.low)))
    return found


def _cap(sysfs: SysFs) -> Optional[Tuple[str, int]]:
    """The file that caps the memory clock now, and the cap in Hz."""
    for name in CAPS:
        try:
            cap = read_int(sysfs, name)
        except NoValue:
            continue
        if cap:
            return name, cap
    return None
