"""A clock that stands until it is waited on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from devices.agent.clock import Clock


class StoppedClock(Clock):
    """Time goes on only by `sleep` and `wait`; `on_sleep` is told the seconds of each."""

    def __init__(self, on_sleep: Callable[[float], None] | None = None) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.on_sleep = on_sleep

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        seconds = max(seconds, 0.0)
        self.now_s += seconds
        if self.on_sleep is not None:
            self.on_sleep(seconds)

    def wait(self, readable: Sequence[int], timeout_s: float) -> list[int]:
        self.sleep(timeout_s)
        return []
