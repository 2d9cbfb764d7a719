"""What a burst found: `Measurement`, its statuses, and the statistics of a power trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Source = Literal["measured", "replayed", "emulated"]
Statistic = Literal["mean", "p95", "peak"]
STATISTICS: tuple[Statistic, ...] = ("p95", "peak", "mean")  # order of preference for the cap


class Status(StrEnum):
    """How a burst ended. Only `ok` is a valid measurement (above the cap too)."""

    OK = "ok"
    OOM = "oom"  # out of memory: bounds the batch size at every other knob
    OVER_CAP = "over_cap"  # ended by the guard; the power is a lower bound
    THROTTLED = "throttled"  # the clock fell during the burst
    CLOCK_NOT_APPLIED = "clock_not_applied"  # the clock never reached what was asked
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error; `sem = 0` means exact."""

    value: float
    sem: float = 0.0


ASSUMED_RELATIVE_SEM = 0.02


@dataclass(frozen=True)
class Measurement:
    """The result of one burst. Values are None where nothing was measured; never NaN. A standard error of 0 means
    exact, None that it is not known.

    `samples`, `energy_j` and `duration_s` belong to the measured window, so that `samples / duration_s` is the
    throughput and `energy_j / duration_s` the mean power. `cost_s` and `cost_j` are what the burst took
    from the study's budget: change of setting and warm-up included. `throughput` is in the device's
    `throughput_unit`, and `energy_per_sample_j` is joules per unit of that throughput (per sample, per epoch).
    """

    status: Status
    source: Source
    reason: str | None = None
    throughput: float | None = None
    throughput_sem: float | None = None
    step_time_s: float | None = None
    power_mean_w: float | None = None
    power_mean_sem_w: float | None = None
    power_p95_w: float | None = None
    power_p95_sem_w: float | None = None
    power_peak_w: float | None = None
    power_peak_sem_w: float | None = None
    energy_per_sample_j: float | None = None
    energy_j: float | None = None
    duration_s: float | None = None
    samples: float | None = None
    cost_s: float = 0.0
    cost_j: float = 0.0
    extra: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether this is a valid measurement."""
        return self.status is Status.OK

    def power(self, statistic: Statistic) -> Estimate | None:
        """The power of the window in watts by `statistic`, or None where it was not recorded."""
        value = getattr(self, f"power_{statistic}_w")
        if value is None:
            return None
        return Estimate(value, known_sem(value, getattr(self, f"power_{statistic}_sem_w")))

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values; `from_json` gives back an equal Measurement."""
        document = asdict(self)
        document["status"] = self.status.value
        document["extra"] = {name: [e.value, e.sem] for name, e in self.extra.items()}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Measurement:
        """Inverse of `to_json`; keys of a newer minor version are ignored.

        Raises:
            ValueError: an unknown status.
        """
        known = {f.name for f in fields(cls)}
        values = {key: value for key, value in document.items() if key in known}
        values["status"] = Status(values["status"])
        values["extra"] = {name: Estimate(*pair) for name, pair in (document.get("extra") or {}).items()}
        return cls(**values)


def known_sem(value: float, sem: float | None) -> float:
    """The standard error of `value`; where none was given, 2 % is assumed: unknown is not exact."""
    return ASSUMED_RELATIVE_SEM * abs(value) if sem is None else sem


def fault(measurement: Measurement) -> str | None:
    """Why a measurement cannot be right: a figure that is negative, no number or 0; None if it can.

    A reading of 0 W is a broken meter, not a frugal board.
    """
    for field_ in fields(measurement):
        value = getattr(measurement, field_.name)
        if isinstance(value, float | int) and not (math.isfinite(value) and value >= 0):
            return f"{field_.name} is {value:g}"
    for name, estimate in measurement.extra.items():
        if not (math.isfinite(estimate.value) and math.isfinite(estimate.sem)):
            return f"{name} is {estimate.value:g}"
    if measurement.status not in (Status.OK, Status.OVER_CAP):
        return None
    if measurement.status is Status.OK and measurement.throughput is None:
        return "no throughput was measured"
    for name in ("throughput", "power_mean_w", "power_p95_w", "power_peak_w", "energy_per_sample_j"):
        if getattr(measurement, name) == 0:
            return f"{name} was read as 0"
    return None


def as_failed(measurement: Measurement, reason: str) -> Measurement:
    """`measurement` as a crashed burst: its figures dropped, its cost kept."""
    cost_s, cost_j = (c if math.isfinite(c) and c > 0 else 0.0 for c in (measurement.cost_s, measurement.cost_j))
    return Measurement(Status.CRASHED, measurement.source, reason=reason, cost_s=cost_s, cost_j=cost_j)


_UNIT_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def seconds_per_unit(throughput: float, throughput_unit: str) -> float:
    """Seconds for one unit of work at `throughput` given in `throughput_unit` (`samples/s`, `epochs/h`).

    Raises:
        ValueError: a unit that is not `<what>/s`, `/min` or `/h`.
    """
    _, _, per = throughput_unit.rpartition("/")
    if per not in _UNIT_SECONDS:
        raise ValueError(f"the throughput unit '{throughput_unit}' does not end in /s, /min or /h")
    return _UNIT_SECONDS[per] / throughput


@dataclass(frozen=True)
class PowerSummary:
    """Statistics of a power trace inside a window, in watts and joules."""

    mean: Estimate
    p95: Estimate
    peak: Estimate
    energy_j: float


def summarize_power(time_s: npt.ArrayLike, power_w: npt.ArrayLike) -> PowerSummary:
    """Energy (trapezoid over the time stamps), mean, 95th percentile and peak of a power trace.

    Args:
        time_s: Shape (n,), increasing time stamps inside the window, seconds.
        power_w: Shape (n,), watts at those stamps.

    The standard error of the mean comes from the sample variance and the effective number of samples
    n (1 - r) / (1 + r), r the lag-one autocorrelation (first-order autoregressive process; meters low-pass their
    readings). That of the percentile uses the order-statistic formula sqrt(q (1 - q) / n_eff) / density with a normal
    density; the peak is given the percentile's.

    Raises:
        ValueError: fewer than two samples, or time stamps that do not increase.
    """
    t = np.asarray(time_s, dtype=float)
    p = np.asarray(power_w, dtype=float)
    if t.size < 2 or t.shape != p.shape:
        raise ValueError(
            f"a power trace needs two samples or more, with one time stamp each; got {t.size} and {p.size}"
        )
    if not bool(np.all(np.diff(t) > 0)):
        raise ValueError("the time stamps of a power trace must increase")
    energy_j = float(np.trapezoid(p, t))
    mean = energy_j / float(t[-1] - t[0])
    deviation = p - p.mean()
    variance = float(deviation @ deviation) / max(p.size - 1, 1)
    autocorrelation = 0.0
    if variance > 0:
        autocorrelation = float(deviation[1:] @ deviation[:-1]) / float(deviation @ deviation)
    autocorrelation = min(max(autocorrelation, 0.0), 0.99)
    n_effective = max(p.size * (1 - autocorrelation) / (1 + autocorrelation), 1.0)
    sem = math.sqrt(variance / n_effective)
    quantile = 0.95
    density = math.exp(-(1.6449**2) / 2) / math.sqrt(2 * math.pi)  # of a standard normal at its 95th percentile
    p95_sem = sem * math.sqrt(quantile * (1 - quantile)) / density
    return PowerSummary(
        mean=Estimate(mean, sem),
        p95=Estimate(float(np.percentile(p, 95)), p95_sem),
        peak=Estimate(float(p.max()), p95_sem),
        energy_j=energy_j,
    )
