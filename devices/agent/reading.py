"""The meter between bursts: what somebody else's training, on a board that is held, draws and what slows it down."""

from typing import Any, Dict, Optional

from .board import Board
from .guard import Guard
from .hands import Hands
from .ledger import Ledger
from .power import statistic_w
from .sampler import Sampler

WINDOW_S = 60.0  # of the statistic that is told: as long as the longest that a full training is judged by


class Reading:
    """Samples the meter from its first `read` to `stop`; where there is none it still tells what slows the board.

    Args:
        board, hands: The board, and what is held of it.
        cap_w: The cap in watts, or None.
        statistic: The statistic of power it holds on.
    """

    def __init__(self, board: Board, hands: Hands, cap_w: Optional[float], statistic: str) -> None:
        self._hands = hands
        self._clock = board.clock
        self._cap_w = cap_w
        self._statistic = statistic
        self._watches = board.watches()
        self._ledger = Ledger("", False)  # kept in memory alone
        self._guard = Guard(cap_w, board.clock)
        self._read_s = self._marked_s = self._clock.monotonic()  # samples until the latter are counted
        self._sampler = None if board.meter is None else Sampler(board.meter, board.clock)
        if self._sampler is not None:
            self._sampler.start()

    def read(self) -> Dict[str, Any]:
        """What was seen since the first call, and since the last.

        Returns:
            `power_w`: the total now, None where it was not read lately. `statistic_w`: the cap's statistic over the
            last minute. `over_cap`: None, or `{"power_w", "for_s"}` where power was too far above the cap for too long
            since the last call, by the rule that ends a burst. `fault`: why the meter cannot be relied on. `slowed`:
            how what is held does not hold, or what slows the board down. And the figures of `Ledger`.
        """
        now_s = self._clock.monotonic()
        found: Dict[str, Any] = {"power_w": None, "statistic_w": None, "over_cap": None, "fault": None}
        if self._sampler is not None:
            found["over_cap"] = self._count(now_s)
            found["fault"] = self._sampler.fault
            recent = self._sampler.between(now_s - WINDOW_S, now_s)
            if recent and found["fault"] is None:
                found.update(power_w=recent[-1].total_w, statistic_w=statistic_w(recent, self._statistic))
                if self._cap_w is not None and found["statistic_w"] > self._cap_w:
                    self._ledger.over_cap_s += now_s - self._read_s
        self._read_s = now_s
        faults = [self._hands.fault(False), *(watch.fault(None) for watch in self._watches)]
        found["slowed"] = next((fault.reason for fault in faults if fault is not None), None)
        return dict(found, **self._ledger.figures(self._cap_w is not None))

    def stop(self) -> None:
        """End sampling."""
        if self._sampler is not None:
            self._sampler.stop()

    def _count(self, now_s: float) -> Optional[Dict[str, float]]:
        """Take in the samples since the last time; how far and how long power was above the cap, if for too long."""
        assert self._sampler is not None
        samples = [s for s in self._sampler.between(self._marked_s, now_s) if s.time_s > self._marked_s]
        if not samples:
            return None
        self._marked_s = samples[-1].time_s
        self._ledger.add(samples)
        since_s: Optional[float] = None
        until_s = 0.0
        for sample in samples:
            if self._guard.power(sample.total_w, sample.time_s) is None:
                continue
            if self._guard.above_since_s is None:  # down again; the first fault of a guard stays
                self._guard = Guard(self._cap_w, self._clock)
            else:
                since_s, until_s = self._guard.above_since_s, sample.time_s
        if since_s is None:
            return None
        above = self._sampler.between(max(since_s, until_s - WINDOW_S), until_s)
        return {"power_w": statistic_w(above, "mean"), "for_s": until_s - since_s}
