"""The power of one burst: sampled from its beginning to its end, summed up over its window."""

from typing import Any, Callable, Dict, List, Optional, Tuple

from .board import Fault
from .clock import Clock
from .meter import Meter, MeterFault
from .power import figures, gap_reason, is_power_tight, stuck_reason
from .sampler import Sampler

Window = Optional[Tuple[float, float]]
_AROUND_S = 1.0
_STALE_S = 0.5
_SETTLED_LAGS = 3.0  # time constants after which a reading tells the load of now


class Metering:
    """Samples of one burst; nothing where there is no meter.

    Args:
        meter: The board's, or None.
        clock: Time.
    """

    def __init__(self, meter: Optional[Meter], clock: Clock) -> None:
        self._meter = meter
        self._clock = clock
        self._sampler = None if meter is None else Sampler(meter, clock)
        self._began = 0.0
        self._ended: Optional[float] = None
        self._counted: List[Tuple[float, float]] = []

    def start(self) -> None:
        """Begin to sample."""
        if self._sampler is not None:
            self._began = self._clock.monotonic()
            self._sampler.start()

    def stop(self) -> None:
        """End sampling; may be called again, and without a start."""
        if self._sampler is not None and self._ended is None:
            self._ended = self._clock.monotonic()
            self._sampler.stop()

    @property
    def latest_w(self) -> Optional[float]:
        """The total now, None where it was not read lately."""
        latest = None if self._sampler is None else self._sampler.latest
        if latest is None or self._clock.monotonic() - latest.time_s > _STALE_S:
            return None  # a meter that falls silent on a high reading must not end the burst for that
        return latest.total_w

    def count(self, phase: str) -> None:
        """Read the counter of energy, where there is one, as the window begins and as it ends.

        Args:
            phase: Of the burst, now.
        """
        counter = None if self._meter is None else self._meter.energy
        if counter is None or phase != ("done" if self._counted else "window"):
            return
        try:
            self._counted.append((self._clock.monotonic(), counter.read_j()))
        except MeterFault:  # the samples tell it too
            self._counted = []

    def tight(self, plan: Dict[str, Any]) -> Callable[[float, float], bool]:
        """Whether the power between two moments is known as well as the plan wants."""

        def known(begin: float, end: float) -> bool:
            if self._sampler is None or self._meter is None:
                return True
            return is_power_tight(self._sampler.between(begin, end), plan["tolerance"], self._meter.resolution_w)

        return known

    def fault(self, window: Window) -> Optional[Fault]:
        """Why the power of this burst cannot be told: the meter failed or is stuck, or the window has gaps."""
        if self._sampler is None or self._meter is None:
            return None
        reason = self._sampler.fault
        if reason is None and window is not None:
            samples, meter = self._sampler.between(*window), self._meter
            reason = gap_reason(samples, *window) or stuck_reason(
                samples, window[0], window[1], meter.lag_s, meter.moves, meter.resolution_w
            )
        return None if reason is None else Fault("crashed", reason)

    def add_to(self, found: Dict[str, Any], window: Window, status: str) -> Dict[str, Any]:
        """A burst's figures with those of power, as keys of `devices.measurement.Measurement`.

        Of a burst that was ended early, power counts from the moment the meter had settled.
        """
        if self._sampler is None or self._meter is None:
            return found
        now = self._clock.monotonic()
        if status == "ok" and window is not None:
            begin, end = window
        else:
            begin, end = self._began + _SETTLED_LAGS * self._meter.lag_s, self._ended or now
        around = self._sampler.between(begin - _AROUND_S, end + _AROUND_S)  # for the values at its edges
        power = figures(around, begin, end, self._meter.statistics, self._meter.resolution_w)
        found = dict(found, **power)
        if status == "ok" and len(self._counted) == 2 and self._meter.energy is not None:
            first, last = self._counted
            try:
                mean_w = self._meter.energy.used_j(first, last) / (last[0] - first[0])
            except MeterFault:
                mean_w = found["power_mean_w"]
            found.update(power_mean_w=mean_w, energy_j=mean_w * (end - begin))
        if found.get("power_mean_w") and found.get("throughput"):
            found["energy_per_sample_j"] = found["power_mean_w"] / found["throughput"]
        return found

    def energy_j(self) -> float:
        """Joules since the start, 0 without a meter."""
        if self._sampler is None or self._ended is None:
            return 0.0
        power = figures(self._sampler.between(self._began, self._ended), self._began, self._ended, ("mean",))
        return float(power.get("energy_j", 0.0))
