"""TurnClock: time that moves only when everybody waits, for many threads in one process.

A busy machine then makes a campaign longer, and nothing else: no thread is late, however long it computes.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections.abc import Sequence

from devices.agent.clock import Clock

_GRACE_S = 0.05  # real ones, after which a thread that neither waits nor ends is taken to wait for something else
_FORCED_S = 0.1  # how far time moves then


class _Seat:
    """A thread that has waited before: it takes part."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.read_fd, self.write_fd = os.pipe()
        self.readable: list[int] = []
        self.until_s: float | None = None  # while it waits

    def close(self) -> None:
        for fd in {self.read_fd, self.write_fd} - {-1}:
            os.close(fd)
        self.read_fd = self.write_fd = -1

    def __del__(self) -> None:  # a campaign makes hundreds of clocks
        self.close()


class TurnClock(Clock):
    """A clock whose time jumps to the next moment anybody waits for, once all threads that take part wait.

    The thread that makes it takes part, and every one that has waited or says so. One that waits outside of the clock
    (joins a thread) is passed over after a moment, and a new one is waited for as long.
    """

    def __init__(self, start_s: float = 1000.0) -> None:
        super().__init__()
        self._now_s = start_s
        self._lock = threading.Lock()
        self._seats: dict[threading.Thread, _Seat] = {}
        self._moved_s = time.monotonic()
        self._strangers: dict[threading.Thread, float] = dict.fromkeys(threading.enumerate(), -math.inf)
        self.take_part()

    def take_part(self) -> None:
        """From now on time waits for the calling thread too."""
        self._take_seat()

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self.wait([], seconds)

    def wait(self, readable: Sequence[int], timeout_s: float) -> list[int]:
        fds = list(readable)
        ready = _ready(fds)
        if ready or timeout_s <= 0:
            return ready
        seat = self._take_seat()
        until_s = self._now_s + timeout_s
        with self._lock:
            seat.readable, seat.until_s = fds, until_s
        try:
            while True:
                self._move()
                found = select.select([*fds, seat.read_fd], [], [], _GRACE_S)[0]
                if seat.read_fd in found:
                    os.read(seat.read_fd, 64)
                    found.remove(seat.read_fd)
                elif not found:
                    self._move(forced=True)
                if found or self._now_s >= until_s:
                    return found or _ready(fds)
        finally:
            with self._lock:
                seat.readable, seat.until_s = [], None

    def _take_seat(self) -> _Seat:
        with self._lock:
            for thread in [thread for thread in self._seats if not thread.is_alive()]:
                self._seats.pop(thread).close()
            thread = threading.current_thread()
            if thread not in self._seats:
                self._seats[thread] = _Seat()
            return self._seats[thread]

    def _move(self, forced: bool = False) -> None:
        """Go to the next moment, if nobody has anything to do now."""
        with self._lock:
            waiting = []
            for thread, seat in self._seats.items():
                if seat.until_s is not None and seat.until_s > self._now_s:
                    waiting.append((seat.until_s, seat))
                elif thread.is_alive() and not forced:
                    return
            if not forced and self._expects():
                return
            if not waiting or (forced and time.monotonic() - self._moved_s < _GRACE_S):
                return
            if _ready([fd for _, seat in waiting for fd in seat.readable]):
                return
            target_s = min(until_s for until_s, _ in waiting)
            self._now_s = min(target_s, self._now_s + _FORCED_S) if forced else target_s
            self._moved_s = time.monotonic()
            for until_s, seat in waiting:
                if until_s <= self._now_s:
                    os.write(seat.write_fd, b"x")

    def _expects(self) -> bool:
        """Whether there is a thread so new that it may yet take part."""
        now_s = time.monotonic()
        alive = [thread for thread in threading.enumerate() if thread not in self._seats]
        self._strangers = {thread: self._strangers.get(thread, now_s) for thread in alive}
        return any(now_s - first_s < _GRACE_S for first_s in self._strangers.values())


def _ready(fds: list[int]) -> list[int]:
    """Those that can be read now."""
    return select.select(fds, [], [], 0)[0] if fds else []
