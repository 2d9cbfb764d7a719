"""Clocks of a fake board that are held between limits, as devfreq and cpufreq do, and its memory clock."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from devices.fake.files import fail


class LimitedClock:
    """A clock with a table of steps. The text of its files is a whole number in its unit.

    Args:
        steps: Ascending.
        unit_hz: Of the numbers.
        legacy: As kernel 4.9: a lower limit above the upper one is refused (EINVAL). Later kernels keep both as
            requests in kHz, and show the range that all requests together leave; the upper limit wins.

    Attributes:
        caps: Upper limits of others, by who asks: the power mode, the temperature.
        factor: What the clock really makes of its step: below 1 where the hardware holds it down.
        stuck: The clock stays at its lowest step, whatever is asked.
    """

    def __init__(self, steps: Sequence[int], unit_hz: int, legacy: bool) -> None:
        self.steps = list(steps)
        self.caps: dict[str, int] = {}
        self.factor = 1.0
        self.stuck = False
        self._khz = max(1000 // unit_hz, 1)
        self._legacy = legacy
        self.reset()

    def reset(self) -> None:
        """As at boot: no limits but those of others."""
        self._low, self._high = self.steps[0], self.steps[-1]

    @property
    def limits(self) -> tuple[int, int]:
        """What both files show."""
        high = min([self._high, self.steps[-1], *self.caps.values()])
        return min(max(self._low, self.steps[0]), high), high

    def write_low(self, text: str) -> None:
        """Raises OSError: EINVAL."""
        value = self._number(text)
        if self._legacy and value > self.limits[1]:
            raise fail(errno.EINVAL, "min_freq")
        self._low = value if self._legacy else value // self._khz * self._khz

    def write_high(self, text: str) -> None:
        """Raises OSError: EINVAL."""
        value = self._number(text)
        if self._legacy and value < self.limits[0]:
            raise fail(errno.EINVAL, "max_freq")
        rounded = value if self._legacy else -(-value // self._khz) * self._khz
        self._high = rounded or self.steps[-1]  # 0: no limit

    def step(self, loaded: bool) -> int:
        """Where the governor sets the clock: high under load, else low."""
        low, high = self.limits
        inside = [step for step in self.steps if step <= high] or self.steps[:1]
        if self.stuck:
            return self.steps[0]
        return inside[-1] if loaded else next((step for step in inside if step >= low), inside[-1])

    @staticmethod
    def _number(text: str) -> int:
        if not text.isdigit() or len(text) > 15:
            raise fail(errno.EINVAL, text)
        return int(text)


class MemoryClock:
    """The memory clock: the firmware's, unless it is locked.

    Args:
        steps: Hz, ascending.

    Attributes:
        cap: Of the power mode, Hz; 0: none.
        locked: Whether it is held at what was asked.
    """

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = list(steps)
        self.cap = 0
        self.reset()

    def reset(self) -> None:
        """As at boot: not locked."""
        self.locked = False
        self.asked = self.steps[-1]

    def write_lock(self, text: str) -> None:
        """Raises OSError: EINVAL."""
        if text not in ("0", "1"):
            raise fail(errno.EINVAL, text)
        self.locked = text == "1"

    def write_rate(self, text: str) -> None:
        """Raises OSError: EINVAL."""
        if not text.isdigit():
            raise fail(errno.EINVAL, text)
        self.asked = int(text)

    def rate(self, loaded: bool) -> int:
        """Hz now. What is no step is rounded down."""
        high = self.cap or self.steps[-1]
        if self.locked:
            high = min(self.asked, high)
        inside = [step for step in self.steps if step <= high] or self.steps[:1]
        return inside[-1] if loaded or self.locked else self.steps[0]
