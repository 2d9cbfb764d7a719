"""Clocks that are held between a lower and an upper limit: devfreq and cpufreq alike.

Kernel 4.9 refuses a lower limit above the upper one (EINVAL). Kernels from 5.5 on take anything, clamp it silently and
show the range that all requests together leave. So the limits are written in an order that every kernel takes, and
only what is read back counts.
"""

import errno
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..board import BoardKnob, Fault, Problem
from ..clock import Clock
from ..failures import AgentError
from ..sysfs import SysFs
from ._files import (
    NOT_APPLIED,
    THROTTLED,
    NoValue,
    is_jetson,
    not_writable,
    open_range,
    read_int,
    wider_mode,
    write,
)

_TRIES = 3  # of a pair of limits: another writer may come between reading and writing
_SETTLE_S = 0.5  # longest wait for a clock to follow its limits; a governor looks every 25 to 100 ms
_POLL_S = 0.025
GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EBUSY, errno.EIO)  # of a part that was switched off


class Limits(NamedTuple):
    """The files of one clock: lower limit, upper limit, and the clock itself."""

    low: str
    high: str
    now: str


class LimitsKnob(BoardKnob):
    """One or several clocks of the same kind, held together at one step.

    Args:
        sysfs, clock: Files and time.
        table: The steps in the unit of the files, ascending.

    Attributes:
        part: Whose clock it is, in words.
        unit_hz: Unit of the files.
        tolerance: By how much, relative, the current clock may differ from the step.
        parts_idle: Whether some of the clocks may idle while the device works: the fastest is then looked at, not the
            slowest.
    """

    part = ""
    unit_hz = 1
    tolerance = 0.015  # a held clock reads up to 1.2 % low
    parts_idle = False

    def __init__(self, sysfs: SysFs, clock: Clock, table: Sequence[int]) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._numbers = {number * self.unit_hz / 1e6: number for number in table}
        self.steps = sorted(self._numbers)

    def clocks(self) -> List[Limits]:
        """Those there are now: some come and go."""
        raise NotImplementedError

    def switches(self) -> List[Tuple[str, str]]:
        """Files that keep the device awake, each with what it must hold for that."""
        return []

    def allowed(self) -> Tuple[float, float]:
        lows: List[float] = []
        highs: List[float] = []
        for clock in self.clocks():
            for name, found in ((clock.low, lows), (clock.high, highs)):
                try:
                    found.append(self._mhz(read_int(self._sysfs, name)))
                except NoValue:  # `problems` says so
                    pass
        return open_range(self.steps, max(lows) if lows else None, min(highs) if highs else None)

    def files(self) -> List[str]:
        """Switches first: what is put back in reverse order gives the limits back before the device may sleep."""
        limits = [name for clock in self.clocks() for name in (clock.low, clock.high)]
        return [name for name, _ in self.switches()] + limits

    def hold(self, value: float) -> None:
        number = self._number(value)
        for name, text in self.switches():
            try:
                write(self._sysfs, name, text)
            except OSError:  # a working device is awake without it, and only then it is measured
                pass
        for clock in self.clocks():
            self._pin(clock, number)
        self._settle(value)

    def fault(self, value: float, loaded: bool) -> Optional[Fault]:
        """As every knob. A clock without a value (EAGAIN) is a sleeping one; where it works, it has one soon."""
        end = self._clock.monotonic() + _SETTLE_S
        while True:
            fault, silent = self._look(value, loaded)
            if fault is not None or silent is None:
                return fault
            if self._clock.monotonic() >= end:
                text = "the {}'s clock cannot be read while it works: {}"
                return Fault(NOT_APPLIED, text.format(self.part, silent))
            self._clock.sleep(_POLL_S)

    def _look(self, value: float, current: bool) -> Tuple[Optional[Fault], Optional[str]]:
        """How it differs now, and why a clock has no value now.

        Args:
            value: What is held.
            current: Look at the clocks themselves too, not only at their limits.
        """
        number = self._number(value)
        found: List[float] = []
        silent: Optional[str] = None
        missing = "no clock of {} is there".format(self.name)
        checked = False
        for clock in self.clocks():
            try:
                low, high = read_int(self._sysfs, clock.low), read_int(self._sysfs, clock.high)
            except NoValue as error:
                if not (self.parts_idle and error.number in GONE):
                    return Fault(NOT_APPLIED, str(error)), None
                missing = str(error)
                continue
            checked = True
            if not (self._same(low, number) and self._same(high, number)):
                return self._moved(value, clock, low, high, current), None
            if current:
                try:
                    found.append(self._mhz(read_int(self._sysfs, clock.now)))
                except NoValue as error:
                    asleep = self.parts_idle and error.number in GONE and error.number != errno.ENOENT
                    if error.number == errno.EAGAIN:
                        silent = str(error)
                    elif not asleep:
                        return Fault(NOT_APPLIED, str(error)), None
        if not checked:
            return Fault(NOT_APPLIED, missing), None
        if found and self.parts_idle:
            silent = None
        return self._off(value, max(found) if self.parts_idle else min(found)) if found else None, silent

    def problems(self) -> List[Problem]:
        found = not_writable(self._sysfs, self.files())
        for name in [name for clock in self.clocks() for name in clock]:
            try:
                read_int(self._sysfs, name)
            except NoValue as error:
                if error.number not in (errno.EAGAIN, *GONE):  # missing limits are not writable either: said above
                    found.append(Problem(str(error), "see what else the driver shows: cat {}".format(name)))
        return found

    def narrowed(self) -> List[Problem]:
        low, high = self.allowed()
        text = "{} has steps from {:g} to {:g} MHz, of which only {:g} to {:g} MHz are open now: {}"
        jetson = is_jetson(self._sysfs)
        found = []
        for moved, end, file in ((high < self.steps[-1], "upper", "high"), (low > self.steps[0], "lower", "low")):
            if not moved:
                continue
            why = "something has moved the {} limit".format(end)
            names = " ".join(getattr(clock, file) for clock in self.clocks())
            number = self._numbers[self.steps[-1] if file == "high" else self.steps[0]]
            mend = "echo {} | sudo tee {}".format(number, names)
            if jetson and file == "high":
                why, mend = "the power mode or the temperature caps it", wider_mode(self._sysfs)
            elif jetson:
                why = "jetson_clocks or the power mode holds the lower limit up"
                mend = "sudo jetson_clocks --restore, or {}".format(mend)
            found.append(Problem(text.format(self.name, self.steps[0], self.steps[-1], low, high, why), mend))
        return found

    def _pin(self, clock: Limits, number: int) -> None:
        """Set both limits. Raising writes the upper one first, lowering the lower one: by the limits now, for the
        current clock says nothing of them."""
        for _ in range(_TRIES):
            try:
                raising = number > read_int(self._sysfs, clock.high)
            except NoValue:
                raising = True
            try:
                for name in (clock.high, clock.low) if raising else (clock.low, clock.high):
                    write(self._sysfs, name, str(number))
                return
            except OSError as error:
                if error.errno in GONE and self.parts_idle:  # switched off meanwhile
                    return
                if error.errno != errno.EINVAL:
                    raise
        # The kernel cuts the upper limit, so that the lower one is above it: `fault` says what it is.

    def _settle(self, value: float) -> None:
        end = self._clock.monotonic() + _SETTLE_S
        while self._look(value, True)[0] is not None and self._clock.monotonic() < end:
            self._clock.sleep(_POLL_S)

    def _moved(self, value: float, clock: Limits, low: int, high: int, loaded: bool) -> Fault:
        low_mhz, high_mhz = self._mhz(low), self._mhz(high)
        cut = high_mhz < value and not self._same(high, self._numbers[value])
        if cut and (low == high or not loaded):
            who = "the power mode (nvpmodel) or the temperature" if is_jetson(self._sysfs) else "the driver or the heat"
            text = "asked {:g} MHz, got {:g} MHz: {} clamps {}"
            return Fault(NOT_APPLIED, text.format(value, high_mhz, who, clock.high))
        text = "{}: min/max are now {:g}/{:g} MHz, {:g} MHz was asked; another program writes {}"
        when = "reset during the burst" if loaded else "not held"
        return Fault(NOT_APPLIED, text.format(when, low_mhz, high_mhz, value, clock.low.rpartition("/")[0]))

    def _off(self, value: float, mhz: float) -> Optional[Fault]:
        if mhz < value * (1 - self.tolerance):
            text = "{} ran at {:g} MHz, although {:g} MHz are held: it is throttled (temperature, current)"
            return Fault(THROTTLED, text.format(self.name, mhz, value))
        if mhz > value * (1 + self.tolerance):
            text = "asked {:g} MHz, got {:g} MHz: the driver rounds or ignores the limits of {}"
            return Fault(NOT_APPLIED, text.format(value, mhz, self.name))
        return None

    def _same(self, number: int, wanted: int) -> bool:
        return abs(number - wanted) * self.unit_hz < 1000  # kernels from 5.5 on keep limits in kHz

    def _mhz(self, number: int) -> float:
        return number * self.unit_hz / 1e6

    def _number(self, value: float) -> int:
        if value not in self._numbers:
            steps = ", ".join("{:g}".format(step) for step in self.steps)
            raise AgentError("input", "{} has no step {:g}".format(self.name, value), "steps: {}".format(steps))
        return self._numbers[value]
