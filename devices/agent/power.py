"""The power of a burst from its samples: mean, percentile, peak and energy of a window, with standard errors.

The statistics are those of `devices.measurement.summarize_power`, without numpy. Meters low-pass what they read, so
that neighbouring samples are alike: the standard error of the mean takes n (1 - r) / (1 + r) for the number of samples,
r their lag-one autocorrelation. Of a load that stays within one step of the readings it is step / sqrt(12) at least;
one that crosses several is averaged over them.
"""

import bisect
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

LONGEST_GAP_S = 0.5  # a longer one hides what happened in it
_FEWEST = 20  # samples, about 2 s: fewer tell nothing of their own correlation
_QUANTILE = 0.95
_NORMAL_95 = 1.6449  # the standard normal at 95 %
_WITHIN_STEP = 1 / math.sqrt(12)  # standard deviation of what is rounded off, in steps
_FINEST_DIGIT = 6  # microwatts; numbers with more digits were computed
_FINE = 0.05  # of a reading: the steps of a Jetson at rest are; within coarser ones even a training may stay
_FEWEST_ALIKE = 50  # readings, all the same, before a meter is called stuck
_FEWEST_APART = 22  # time constants that they take: of a common plug more than a window, of an INA3221 less


class Sample(NamedTuple):
    """One reading of a meter.

    Attributes:
        time_s: `Clock.monotonic` when the reading was there.
        total_w: Watts of the total.
        rails: Watts of every rail that could be read.
    """

    time_s: float
    total_w: float
    rails: Dict[str, float]


def figures(
    samples: Sequence[Sample],
    begin_s: float,
    end_s: float,
    statistics: Sequence[str] = ("p95", "peak", "mean"),
    resolution_w: Optional[float] = None,
) -> Dict[str, Any]:
    """The power of the window from `begin_s` to `end_s`, as keys of `devices.measurement.Measurement`.

    Args:
        samples: By time. Samples outside the window serve for the values at its edges only; where there are none, the
            nearest inside is held.
        statistics: Which the meter gives; a counter of energy only the mean.
        resolution_w: The step of the readings; None: as their digits tell.

    Returns:
        `energy_j`, `power_mean_w`, `power_mean_sem_w`, as far as the statistics go the same of `p95` and `peak`, and in
        `extra` the mean of every rail that all samples have and that is not the total itself: `{"VDD_SOC_w": [value,
        standard error]}`. Empty for fewer than two samples inside.
    """
    times_s = [sample.time_s for sample in samples]
    first, last = bisect.bisect_left(times_s, begin_s), bisect.bisect_right(times_s, end_s)
    inside = samples[first:last]
    if len(inside) < 2:
        return {}
    watts = [sample.total_w for sample in inside]
    energy_j = _energy_j(times_s, [sample.total_w for sample in samples], begin_s, end_s)
    mean_sem_w, least_sem_w = _mean_sem(watts), _least_sem(watts, resolution_w)
    found: Dict[str, Any] = {
        "energy_j": energy_j,
        "power_mean_w": energy_j / (end_s - begin_s),
        "power_mean_sem_w": max(mean_sem_w, least_sem_w),
    }
    # of an order statistic: sqrt(q (1 - q) / n) / density, with the density of a normal at its 95th percentile
    density = math.exp(-(_NORMAL_95**2) / 2) / math.sqrt(2 * math.pi)
    order_sem_w = max(mean_sem_w * math.sqrt(_QUANTILE * (1 - _QUANTILE)) / density, least_sem_w)
    if "p95" in statistics:
        found.update(power_p95_w=_percentile(watts, _QUANTILE), power_p95_sem_w=order_sem_w)
    if "peak" in statistics:
        found.update(power_peak_w=max(watts), power_peak_sem_w=order_sem_w)
    found["extra"] = {name + "_w": _rail(inside, name) for name in inside[0].rails if _is_part(inside, name)}
    return found


def is_power_tight(samples: Sequence[Sample], tolerance: float, resolution_w: Optional[float] = None) -> bool:
    """Whether the 95 % interval of the mean is within +-`tolerance` of it (relative); not below 20 samples."""
    watts = [sample.total_w for sample in samples]
    if len(watts) < _FEWEST:
        return False
    sem_w = max(_mean_sem(watts), _least_sem(watts, resolution_w))
    return 1.96 * sem_w <= tolerance * math.fsum(watts) / len(watts)


def longest_gap_s(times_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """The longest time without a sample in the window, its edges included; all of it where there is none."""
    first, last = bisect.bisect_left(times_s, begin_s), bisect.bisect_right(times_s, end_s)
    marks = [begin_s, *times_s[first:last], end_s]
    return max(later - earlier for earlier, later in zip(marks, marks[1:]))


def gap_reason(samples: Sequence[Sample], begin_s: float, end_s: float) -> Optional[str]:
    """Why a window's power cannot be told: a gap of more than 0.5 s, or too few samples; None where it can."""
    gap_s = longest_gap_s([sample.time_s for sample in samples], begin_s, end_s)
    if gap_s > LONGEST_GAP_S:
        return "the power meter gave no value for {:.1f} s of the window (at most {:g} s may be missing)".format(
            gap_s, LONGEST_GAP_S
        )
    inside = sum(begin_s <= sample.time_s <= end_s for sample in samples)
    if inside < 2:
        return "the window of {:.1f} s holds {} readings of the power meter: too few".format(end_s - begin_s, inside)
    return None


def stuck_reason(
    samples: Sequence[Sample],
    begin_s: float,
    end_s: float,
    lag_s: float,
    moves: bool,
    resolution_w: Optional[float] = None,
) -> Optional[str]:
    """Why the meter itself is not believed in a window in which a training ran; None where it is.

    Readings that are all the same to the last digit are no fault by themselves: a calm load, seen in coarse steps or
    through a plug that looks once a second, may give them. They are one where the steps are fine and either the meter
    never read anything else, from before the training was there, or the window is long for this meter.

    Args:
        samples: By time.
        lag_s: The meter's time constant; 0: not known.
        moves: Whether it ever read something else.
        resolution_w: The step of its readings; None: as their digits tell.
    """
    watts = [sample.total_w for sample in samples if begin_s <= sample.time_s <= end_s]
    if len(watts) < _FEWEST_ALIKE or watts.count(watts[0]) != len(watts):
        return None
    if _step_w(watts, resolution_w) > _FINE * watts[0]:
        return None
    if moves and not 0 < _FEWEST_APART * lag_s <= end_s - begin_s:
        return None
    return "the power meter is stuck: all {} readings of the window are exactly {:.9g} W, as no training's are".format(
        len(watts), watts[0]
    )


def _step_w(watts: Sequence[float], resolution_w: Optional[float]) -> float:
    """The step of readings: as it is known, else the largest power of ten, of 1 W at most, that divides them all."""
    if resolution_w is not None:
        return resolution_w
    for digits in range(_FINEST_DIGIT):
        if all(abs(w * 10**digits - round(w * 10**digits)) < 1e-6 for w in watts):
            return float(10**-digits)
    return float(10**-_FINEST_DIGIT)


def _least_sem(watts: Sequence[float], resolution_w: Optional[float]) -> float:
    step_w = _step_w(watts, resolution_w)
    return step_w * _WITHIN_STEP if max(watts) - min(watts) < 1.5 * step_w else 0.0


def _energy_j(times_s: Sequence[float], watts: Sequence[float], begin_s: float, end_s: float) -> float:
    """The trapezoid over the time stamps inside, and over the interpolated values at both edges."""
    first, last = bisect.bisect_right(times_s, begin_s), bisect.bisect_left(times_s, end_s)
    points: List[Tuple[float, float]] = [(begin_s, _at(times_s, watts, begin_s))]
    points += zip(times_s[first:last], watts[first:last])
    points.append((end_s, _at(times_s, watts, end_s)))
    return math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(points, points[1:]))


def _at(times_s: Sequence[float], watts: Sequence[float], moment_s: float) -> float:
    after = bisect.bisect_left(times_s, moment_s)
    if after == len(times_s):
        return watts[-1]
    if after == 0 or times_s[after] == moment_s:
        return watts[after]
    share = (moment_s - times_s[after - 1]) / (times_s[after] - times_s[after - 1])
    return watts[after - 1] + share * (watts[after] - watts[after - 1])


def _mean_sem(values: Sequence[float]) -> float:
    """The standard error of the mean of a first-order autoregressive series."""
    count = len(values)
    mean = math.fsum(values) / count
    deviations = [value - mean for value in values]
    squares = math.fsum(d * d for d in deviations)
    if count < 2 or squares <= 0:
        return 0.0
    r = math.fsum(a * b for a, b in zip(deviations, deviations[1:])) / squares
    r = min(max(r, 0.0), 0.99)
    effective = max(count * (1 - r) / (1 + r), 1.0)
    return math.sqrt(squares / (count - 1) / effective)


def _percentile(values: Sequence[float], quantile: float) -> float:
    """By linear interpolation between the two nearest values."""
    ordered = sorted(values)
    place = quantile * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _is_part(samples: Sequence[Sample], name: str) -> bool:
    values = [sample.rails.get(name) for sample in samples]
    return None not in values and values != [sample.total_w for sample in samples]


def _rail(samples: Sequence[Sample], name: str) -> List[float]:
    """Mean over the time and its standard error."""
    times_s = [sample.time_s for sample in samples]
    watts = [sample.rails[name] for sample in samples]
    begin_s, end_s = times_s[0], times_s[-1]
    return [_energy_j(times_s, watts, begin_s, end_s) / (end_s - begin_s), _mean_sem(watts)]


def statistic_w(samples: Sequence[Sample], name: str) -> float:
    """`mean` (over the time), `p95` or `peak` of at least one sample, watts."""
    watts = [sample.total_w for sample in samples]
    if name == "peak" or len(watts) == 1:
        return max(watts)
    if name == "p95":
        return _percentile(watts, _QUANTILE)
    begin_s, end_s = samples[0].time_s, samples[-1].time_s
    return _energy_j([sample.time_s for sample in samples], watts, begin_s, end_s) / (end_s - begin_s)
