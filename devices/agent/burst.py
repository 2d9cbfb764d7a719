"""A burst: warm-up until step time is steady, then a window until its figures are tight. It is fed with steps.

first step    warm-up: at least warm_up_s          window: min_s to max_s
|-------------|----------------------------------|------------------------------------|
               ends when `is_steady`, or at       ends when `is_tight`, or at max_s
               warm_up_max_s
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .series import Rate, is_steady, is_tight, rate, with_burst_spread

METER_WARM_UP_S = 3.0  # a meter lags, and power follows temperature
WARM_UP_LIMIT = 4  # times the shortest warm-up, after which a series that never settles is measured as it is
LOOK_S = 0.25  # between two looks at the statistics, seconds of burst
FEW_STEPS_SEM = 0.05  # relative; what is assumed of a window of one or two steps, which shows nothing itself
TIGHT_LOOKS = 3  # in a row: a window that ends as soon as its scatter happens to be small makes too little of it
MEDIAN_STEPS = 9


class Lengths(NamedTuple):
    """How long a burst lasts, seconds, and the relative half-width of the 95 % interval at which it may end."""

    warm_up_s: float
    warm_up_max_s: float
    min_s: float
    max_s: float
    tolerance: float
    metered: bool = False

    @classmethod
    def of(cls, plan: Dict[str, Any], metered: bool) -> "Lengths":
        """The lengths of a plan (`devices.device.BurstPlan`): without a meter half the shortest window warms up."""
        warm_up_s = METER_WARM_UP_S if metered else plan["min_s"] / 2
        return cls(warm_up_s, warm_up_s * WARM_UP_LIMIT, plan["min_s"], plan["max_s"], plan["tolerance"], metered)


class Burst:
    """The state of one burst.

    Args:
        lengths: How long it lasts.
        samples_per_step: Samples of one optimizer step.
        spread: Relative standard deviation of the rate from burst to burst, which no window shows.
        tight: Whether the power between two moments is known well enough for the window to end.

    Attributes:
        window: Moments at which the window began and ended, or stands now; None before it begins.
    """

    def __init__(
        self,
        lengths: Lengths,
        samples_per_step: int,
        spread: float = 0.0,
        tight: Callable[[float, float], bool] = lambda begin, end: True,
    ) -> None:
        self._lengths = lengths
        self._spread = spread
        self._power_tight = tight
        self.window: Optional[Tuple[float, float]] = None
        self.samples_per_step = samples_per_step
        self._warm_up: List[float] = []
        self._window: List[float] = []
        self._warm_up_s = 0.0
        self._window_s = 0.0
        self._looked_s = 0.0
        self.steady = False
        self.phase = "start"
        self._tight_looks = 0

    def add(self, steps: Sequence[Tuple[float, float]]) -> None:
        """Take optimizer steps in: (time stamp of the end, duration), seconds. Those after the end do not count."""
        for end, duration in steps:
            if self.phase == "window":
                self.window = (self.window[0] if self.window else end - duration, end)
            if self.phase == "start":  # the first step pays for what is made only once
                # Steps so long warm up within the first; a meter does not: much of that may have been preparation.
                settled = duration >= self._lengths.warm_up_max_s and not self._lengths.metered
                self.phase = "window" if settled else "warm-up"
            elif self.phase == "warm-up":
                self._warm_up.append(duration)
                self._warm_up_s += duration
                self._end_warm_up()
            elif self.phase == "window":
                self._window.append(duration)
                self._window_s += duration
                self._end_window()

    def rate(self) -> Optional[Rate]:
        """Steps a second in the window, or, before there is one, so far; None before the second step."""
        durations = self._window or self._warm_up[-MEDIAN_STEPS:]
        return rate(durations) if durations else None

    def slowed(self) -> float:
        """By how much the last third of the window was slower than the first, by medians: 0.1 is 10 %."""
        third = len(self._window) // 3
        if third < 3:
            return 0.0
        first, last = sorted(self._window[:third]), sorted(self._window[-third:])
        return last[third // 2] / first[third // 2] - 1

    def figures(self) -> Dict[str, Any]:
        """What the window found: keys of `devices.measurement.Measurement`. Empty before its first step."""
        if not self._window:
            return {}
        found = rate(self._window)
        if found.sem is None:  # a step or two
            found = found._replace(sem=FEW_STEPS_SEM * found.value)
        found = with_burst_spread(found, self._spread)
        return {
            "throughput": found.value * self.samples_per_step,
            "throughput_sem": (found.sem or 0.0) * self.samples_per_step,
            "step_time_s": self._window_s / len(self._window),
            "duration_s": self._window_s,
            "samples": len(self._window) * self.samples_per_step,
        }

    def _look(self, elapsed_s: float) -> bool:
        """Whether the statistics should be computed anew: not after every step."""
        if elapsed_s - self._looked_s < LOOK_S:
            return False
        self._looked_s = elapsed_s
        return True

    def _end_warm_up(self) -> None:
        lengths, elapsed_s = self._lengths, self._warm_up_s
        if elapsed_s < lengths.warm_up_s:
            return
        over = elapsed_s >= lengths.warm_up_max_s
        if not over and not self._look(elapsed_s):
            return
        self.steady = is_steady(self._warm_up)
        if self.steady or over:
            self.phase = "window"
            self._looked_s = 0.0

    def _end_window(self) -> None:
        lengths, elapsed_s = self._lengths, self._window_s
        if elapsed_s >= lengths.max_s:
            self.phase = "done"
        elif elapsed_s >= lengths.min_s and self._look(elapsed_s):
            tight = is_tight(rate(self._window), lengths.tolerance)
            tight = tight and self.window is not None and self._power_tight(*self.window)
            self._tight_looks = self._tight_looks + 1 if tight else 0
            if self._tight_looks == TIGHT_LOOKS:
                self.phase = "done"
