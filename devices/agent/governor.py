"""The governor: which clock a long training may run at. It decides by what it is told; others measure and write.

A burst that breaks the cap is ended. A training is not: its clock goes down, and up again when there is room.
"""

from typing import Dict, List, NamedTuple, Optional

ALLOWED = ((0.10, 2.0), (0.03, 20.0), (0.0, 60.0))
"""How far above the cap (relative) power may stay, for how long (seconds): the further, the shorter."""
WATCHED_S = 60.0  # at a clock before a higher one is thought of
COOL_S = 120.0  # without a sign of heat, the same
HEAT_STEP_S = 10.0  # between two steps down for heat: temperature follows slowly
PROVEN_S = 300.0  # at a higher clock, after which it was no mistake
LONGEST_WAIT_S = 1800.0  # a higher clock that failed is tried again later and later, to once in this time
DOUBT = 1.1  # after which one is tried again that is expected to be above the cap by up to this: things change
STUCK_S = 60.0  # above the cap at the lowest clock, before it is given up
DRIFT_S = 600.0  # below the tuned clock in a row: conditions are not those of the study any more


class Move(NamedTuple):
    """What is to be held from now on, and why."""

    value: float
    reason: str


class Governor:
    """Holds a cap by one knob whose higher values draw more power.

    Args:
        steps: The knob's values, ascending; empty: there is nothing to turn.
        tuned: The value the study found: never above it, where nothing was measured.
        cap_w: The cap, or None.
        now_s: The time.
        settle_s: Until the meter tells the power of a clock that was changed.

    Attributes:
        value: What is to be held now; None without a knob.
        cap_w: The cap now.
    """

    def __init__(
        self,
        steps: List[float],
        tuned: Optional[float],
        cap_w: Optional[float],
        now_s: float,
        settle_s: float = 0.0,
    ) -> None:
        self._settle_s = settle_s
        self._steps = [step for step in steps if tuned is not None and step <= tuned]
        self.value = self._steps[-1] if self._steps else None
        self.cap_w = self._tuned_cap_w = cap_w
        self._since_s = now_s + settle_s  # at this clock, and under this cap
        self._away_s: Optional[float] = None  # when the tuned clock, or the study's cap, was left
        self._hot_s: Optional[float] = None  # the last sign of heat
        self._stuck_s: Optional[float] = None
        self._raised_s: Optional[float] = None
        self._wait_s = {"heat": COOL_S, "power": WATCHED_S}
        self._latest_w: Optional[float] = None  # the statistic at this clock
        self._drew_w: Dict[float, float] = {}  # that of clocks when they were left
        self._ratio: Dict[float, float] = {}  # power of the next higher clock over that of this one

    def set_cap(self, cap_w: float, now_s: float) -> None:
        """Another cap from now on."""
        self.cap_w, self._stuck_s = cap_w, None
        self._mark(now_s)

    @property
    def since_s(self) -> float:
        """Since when power is that of this clock under this cap."""
        return self._since_s

    def open_windows_s(self, now_s: float) -> List[float]:
        """The lengths of `ALLOWED` for which power has been that of this clock under this cap."""
        return [seconds for _, seconds in ALLOWED if now_s - self._since_s >= seconds]

    def power(self, watts: Dict[float, float], now_s: float) -> Optional[Move]:
        """Decide by power.

        Args:
            watts: The cap's statistic over the last seconds, by their number, as far as `open_windows_s` goes; for the
                shortest the lowest reading.
            now_s: The time.
        """
        for margin, seconds in ALLOWED if self.cap_w is not None else ():
            if seconds in watts and watts[seconds] > self.cap_w * (1 + margin):  # type: ignore[operator]
                text = "{:.4g} W over {:g} s is above the cap of {:g} W"
                move = self._down("power", text.format(watts[seconds], seconds, self.cap_w), now_s, watts[seconds])
                if move is None and self._stuck_s is None:
                    self._stuck_s = now_s
                return move
        long = [watts[seconds] for _, seconds in ALLOWED[1:] if seconds in watts]
        if long:
            self._latest_w = long[-1]
        if ALLOWED[-1][1] in watts:
            self._stuck_s = None
        elif self.cap_w is not None:
            return None
        return self._up(now_s)

    def heat(self, reason: str, now_s: float) -> Optional[Move]:
        """Decide by a sign of heat: the board throttles, or is about to."""
        first = self._hot_s is None
        self._hot_s = now_s
        if not first and now_s - self._since_s < HEAT_STEP_S:
            return None
        return self._down("heat", reason, now_s, self._latest_w)

    def stuck(self, now_s: float) -> bool:
        """Whether the cap is broken where nothing is left to turn, for too long."""
        return self._stuck_s is not None and now_s - self._stuck_s > STUCK_S

    def drift(self, now_s: float) -> Optional[str]:
        """How conditions differ from those of the study, for so long that tuning anew may pay; else None."""
        if self._away_s is None or now_s - self._away_s < DRIFT_S:
            return None
        if self.cap_w is not None and self._tuned_cap_w is not None and self.cap_w != self._tuned_cap_w:
            return "the cap is {:g} W, it was tuned under {:g} W".format(self.cap_w, self._tuned_cap_w)
        return "the tuned clock has not been held for {:.0f} min".format((now_s - self._away_s) / 60)

    def _down(self, why: str, reason: str, now_s: float, drew_w: Optional[float]) -> Optional[Move]:
        lower = [step for step in self._steps if self.value is not None and step < self.value]
        if not lower:
            return None
        if self._raised_s is not None:  # going up was a mistake: wait longer before the next time
            self._wait_s[why] = min(self._wait_s[why] * 2, LONGEST_WAIT_S)
            self._raised_s = None
        return self._move(lower[-1], reason, now_s, drew_w)

    def _up(self, now_s: float) -> Optional[Move]:
        """The next higher clock, where there is one with room."""
        if self._raised_s is not None and now_s - self._raised_s > PROVEN_S:
            self._raised_s = None
            self._wait_s = {"heat": COOL_S, "power": WATCHED_S}
        higher = [step for step in self._steps if self.value is not None and step > self.value]
        if not higher or self.value is None:
            return None
        if higher[0] in self._drew_w and self._latest_w is not None:
            self._ratio[self.value] = max(self._drew_w.pop(higher[0]) / self._latest_w, 1.0)
        stayed_s = now_s - self._since_s
        if stayed_s < self._wait_s["power"]:
            return None
        if self._hot_s is not None and now_s - self._hot_s < self._wait_s["heat"]:
            return None
        reason = "no sign of heat for {:.0f} s".format(now_s - (self._hot_s or now_s))
        if self.cap_w is not None and self._latest_w is not None:
            # not known: power rises by no larger share than the clock, as a part of it does not depend on it
            expected_w = self._latest_w * self._ratio.get(self.value, higher[0] / self.value)
            if expected_w > self.cap_w * (1.0 if stayed_s < LONGEST_WAIT_S else DOUBT):
                return None
            reason = "{:.4g} W leaves room under the cap of {:g} W".format(self._latest_w, self.cap_w)
        move = self._move(higher[0], reason, now_s, None)
        self._raised_s = now_s
        return move

    def _move(self, value: float, reason: str, now_s: float, drew_w: Optional[float]) -> Move:
        if drew_w is not None and self.value is not None:
            self._drew_w[self.value] = drew_w
        self.value, self._latest_w = value, None
        self._mark(now_s)
        return Move(value, reason)

    def _mark(self, now_s: float) -> None:
        self._since_s = now_s + self._settle_s
        if (not self._steps or self.value == self._steps[-1]) and self.cap_w == self._tuned_cap_w:
            self._away_s = None
        elif self._away_s is None:
            self._away_s = now_s
