"""Clock: the one way by which the agent knows and waits for time, so that a test can put another in its place."""

import select
import time
from typing import List, Sequence


class Clock:
    """The machine's clocks. `monotonic` is the same in every process of the machine (CLOCK_MONOTONIC)."""

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since 1970, by the machine's calendar clock."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Do nothing for that long."""
        time.sleep(max(seconds, 0.0))

    def wait(self, readable: Sequence[int], timeout_s: float) -> List[int]:
        """Wait until one of the file descriptors can be read, or the time is over; those that can be read."""
        ready, _, _ = select.select(list(readable), [], [], max(timeout_s, 0.0))
        return ready
