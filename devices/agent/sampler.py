"""A meter read ten times a second by a thread of its own, with time stamps."""

import array
import bisect
import math
import os
import threading
from typing import Dict, List, Optional

from .clock import Clock
from .meter import Meter, MeterFault
from .power import Sample, longest_gap_s

PERIOD_S = 0.1  # meters of boards average over longer: faster gives nothing new
KEEP_S = 4 * 3600.0  # about 7 MB with three rails
_MOST_FAULTS = 3  # in a row: one is a glitch of the bus
_LONGEST_FAULT_S = 0.5
_STALLED_S = 2.0  # a slow board starves the thread for a second and more: that is a gap, not a fault
_LAST_S = 2.5  # a meter that answers at all has answered by then; a file of the kernel may hang for ever
_NICENESS = -10  # the trainer's data loaders must not starve it


class Sampler:
    """Samples of a meter. May be started again after a stop; what was sampled is kept.

    Args:
        meter: What is read.
        clock: Time stamps and waits.
        period_s: From sample to sample; ticks that are missed are left out, not made up for.
        keep_s: How far back samples are kept.
    """

    def __init__(self, meter: Meter, clock: Clock, period_s: float = PERIOD_S, keep_s: float = KEEP_S) -> None:
        self._meter = meter
        self._clock = clock
        self._period_s = period_s
        self._keep = max(int(keep_s / period_s), 2)  # samples
        self._lock = threading.Lock()  # of all columns and of what is said of faults
        self._times_s = array.array("d")
        self._totals_w = array.array("d")
        self._rails_w: Dict[str, "array.array[float]"] = {channel.name: array.array("d") for channel in meter.channels}
        self._faults = 0
        self._reason = ""
        self._good_s = 0.0  # when it last answered, or was started
        self._thread: Optional[threading.Thread] = None
        self._wake = -1

    def start(self) -> None:
        """Begin to sample; nothing where it does."""
        if self._thread is not None:
            return
        with self._lock:
            self._faults = 0
            self._good_s = self._clock.monotonic()
        ended, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(ended,), name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling, after the reading that is under way, for which it waits 2.5 s at most; may be called again."""
        if self._thread is None:
            return
        os.write(self._wake, b"x")
        os.close(self._wake)
        self._thread.join(_LAST_S)  # one that hangs ends itself when its reading does
        self._thread = None

    @property
    def latest(self) -> Optional[Sample]:
        """The last sample, None before the first."""
        with self._lock:
            return self._sample(len(self._times_s) - 1) if self._times_s else None

    @property
    def fault(self) -> Optional[str]:
        """Why the meter cannot be relied on now: more than three faults in a row, or for more than 0.5 s; or no answer
        at all for 2 s. None while it answers."""
        with self._lock:
            silent_s = self._clock.monotonic() - self._good_s
            if self._faults > _MOST_FAULTS or (self._faults and silent_s > _LONGEST_FAULT_S):
                return self._reason
            if self._thread is not None and silent_s > _STALLED_S:
                return "{} has not answered for {:.1f} s".format(self._meter.name, silent_s)
            return None

    def between(self, begin_s: float, end_s: float) -> List[Sample]:
        """The samples from one moment to another, both included."""
        with self._lock:
            first, last = bisect.bisect_left(self._times_s, begin_s), bisect.bisect_right(self._times_s, end_s)
            return [self._sample(i) for i in range(first, last)]

    def longest_gap(self, begin_s: float, end_s: float) -> float:
        """The longest time without a sample between two moments, seconds."""
        with self._lock:
            return longest_gap_s(self._times_s, begin_s, end_s)

    def _sample(self, i: int) -> Sample:
        rails = {name: column[i] for name, column in self._rails_w.items() if not math.isnan(column[i])}
        return Sample(self._times_s[i], self._totals_w[i], rails)

    def _run(self, end_fd: int) -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)  # 0: on Linux this thread alone
        except OSError:  # not allowed to
            pass
        try:
            self._sample_until(end_fd)
        finally:
            os.close(end_fd)  # not `stop`, which may have given up waiting

    def _sample_until(self, end_fd: int) -> None:
        started_s = self._clock.monotonic()
        ticks = 0
        while True:
            self._read()
            late = math.floor((self._clock.monotonic() - started_s) / self._period_s)
            ticks = max(ticks, late) + 1  # a clock that wakes a hair too early gets no second reading at one tick
            wait_s = started_s + ticks * self._period_s - self._clock.monotonic()
            if self._clock.wait([end_fd], wait_s):
                return

    def _read(self) -> None:
        try:
            total_w, rails = self._meter.read()
        except MeterFault as error:
            self._fail(str(error))
        except Exception as error:  # whatever a driver does: a thread that ends in silence would be the worst
            self._fail("{} cannot be read: {}: {}".format(self._meter.name, type(error).__name__, error))
        else:
            self._keep_sample(self._clock.monotonic(), total_w, rails)

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._faults += 1
            self._reason = reason

    def _keep_sample(self, time_s: float, total_w: float, rails: Dict[str, float]) -> None:
        with self._lock:
            self._faults = 0
            self._good_s = time_s
            if self._times_s and time_s <= self._times_s[-1]:  # stamps increase: statistics rely on it
                return
            self._times_s.append(time_s)
            self._totals_w.append(total_w)
            for name, column in self._rails_w.items():
                column.append(rails.get(name, math.nan))
            excess = len(self._times_s) - self._keep
            if excess > self._keep // 10:  # not one by one: each removal moves all that is left
                for column in (self._times_s, self._totals_w, *self._rails_w.values()):
                    del column[:excess]
