"""Clock: the one way by which the agent knows and waits for time, so that a test can put another in its place."""

import select
import time
from typing import List, Sequence


class Clock:
    """The machine's clocks. `monotonic` is the same in every process of the machine that has a clock of this speed.

    Args:
        speed: Seconds of this clock in a real one: a fake board trains faster than a real one would.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed

    def monotonic(self) -> float:
        """Seconds since some moment, never going back (CLOCK_MONOTONIC, times the speed)."""
        return time.monotonic() * self.speed

    def time(self) -> float:
        """Seconds since 1970, by the machine's calendar clock."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Do nothing for that long."""
        time.sleep(max(seconds, 0.0) / self.speed)

    def wait(self, readable: Sequence[int], timeout_s: float) -> List[int]:
        """Wait until one of the file descriptors can be read, or the time is over; those that can be read."""
        ready, _, _ = select.select(list(readable), [], [], max(timeout_s, 0.0) / self.speed)
        return ready
