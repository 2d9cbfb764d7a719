"""Statistics of a series of step times: whether it has become steady, and its rate with a standard error.

Called several times a second on a slow board: everything is linear in the number of steps, but for medians of parts.
"""

import math
from typing import List, NamedTuple, Optional, Sequence

MIN_STEPS = 16  # the latter half then gives two medians of four steps each; fewer tell nothing of their own noise
MIN_SECONDS = 1.0  # in one, a warm-up with a time constant of 3 s changes by 3 % from quarter to quarter
TOLERANCE = 0.02  # relative change between the two quarters that passes for steady
LOOK_BACK_S = 20.0  # however long the series: a drift of 10 % a minute then stays under the tolerance
HORIZON_S = 1.0  # the change is judged over this time at least: in a short series a warm-up has had no time to show
PATIENCE_S = 10.0  # 3.3 of the longest time constants (3 s): a change hidden in noise is then no warm-up any more
STEADY_BLOCKS = 16  # blocks a quarter
BATCHES = 12  # batches in the standard error: 10 to 12 cover best for n from 20 to 3000 (tests/devices/agent)

_NORMAL_95 = 1.6449  # the standard normal at 95 %, and Student's t there for 1 to 11 degrees of freedom:
_STUDENT_95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796)


class Rate(NamedTuple):
    """Steps a second over a window.

    `value` is in steps a second; `sem`, its standard error, in the same unit, is None where it cannot be known;
    `steps` and `seconds` are the window's.
    """

    value: float
    sem: Optional[float]
    steps: int
    seconds: float


def is_steady(durations_s: Sequence[float]) -> bool:
    """Whether the step time has become steady.

    Compares the medians of the third and the fourth quarter of the series (of at most its last 20 s). Steady is a
    change of at most 2 % of the step time, whose standard error says that it is not 4 % either. After 10 s a
    change within twice its standard error passes too, so that a noisy machine is not waited for without end.

    A warm-up that decays exponentially from 1.5 times the step time, with a time constant of 3 s or less, then has less
    than 2.5 % to go, mostly less than 4 % where the steps are noisy.

    Args:
        durations_s: Step times in seconds from the start of the burst on.

    Returns:
        False for fewer than 16 steps or less than 1 s.

    Raises:
        ValueError: a duration that is negative or not finite.
    """
    elapsed = _total(durations_s)
    count = len(durations_s)
    if count < MIN_STEPS or elapsed < MIN_SECONDS:
        return False
    size = count // 2
    recent = list(durations_s[-size:])
    seconds = math.fsum(recent)
    if seconds > LOOK_BACK_S:
        size = min(size, max(MIN_STEPS, int(size * LOOK_BACK_S / seconds)))
        recent = recent[-size:]
    half = size // 2
    before = [_median(block) for block in _split(recent[:half], STEADY_BLOCKS)]
    after = [_median(block) for block in _split(recent[half:], STEADY_BLOCKS)]
    typical_before, typical_after = _median(before), _median(after)
    change = typical_after - typical_before
    noise = _noise_of_change(before, after, change)
    limit = TOLERANCE * (typical_before + typical_after) / 2
    if elapsed >= PATIENCE_S:
        return abs(change) <= max(limit, 2 * noise)
    pace = max(1.0, HORIZON_S / (math.fsum(recent) / 2))
    return pace * abs(change) <= limit and pace * (abs(change) + 2 * noise) <= 2 * limit


def rate(durations_s: Sequence[float]) -> Rate:
    """Steps a second over a window: steps by the sum of their durations.

    The standard error is that of the mean step time by the delta method: sem(1 / m) = sem(m) / m^2. It speaks of the
    window only; see `with_burst_spread`.

    Args:
        durations_s: Step times in seconds. Single zeros (a coarse clock) are taken as they are.

    Raises:
        ValueError: no steps, no time at all, or a duration that is negative or not finite.
    """
    seconds = _total(durations_s)
    steps = len(durations_s)
    if not steps or seconds <= 0:
        raise ValueError("a rate needs steps that took time; got {} in {:g} s".format(steps, seconds))
    value = steps / seconds
    sem = mean_sem(durations_s)
    return Rate(value, None if sem is None else sem * value * value, steps, seconds)


def mean_sem(values: Sequence[float]) -> Optional[float]:
    """The standard error of the mean of a series whose values may depend on each other; None for fewer than three.

    Means of 6 to 12 consecutive batches (single values where there are few) take out what decays within a batch. What
    correlation is left between neighbouring batches is taken as first-order autoregressive, r: the variance grows by
    (1 + r) / (1 - r). The estimate of r is corrected for its bias in short series, (1 + 3 r) / batches (Kendall 1954;
    Marriott and Pope 1954, Biometrika 41), and a negative one counts as 0. A drift in the series reads as correlation.

    The result is scaled by Student's t at 95 % over the normal's, so that mean +- 1.645 sem covers 90 % in spite of
    the few batches.
    """
    if len(values) < 3:
        return None
    size = -(-len(values) // BATCHES)
    means = [math.fsum(batch) / len(batch) for batch in _split(values, len(values) // size)]
    count = len(means)
    mean = math.fsum(means) / count
    deviations = [value - mean for value in means]
    squares = math.fsum(d * d for d in deviations)
    if squares <= 0:
        return 0.0
    variance = squares / (count - 1) / count * _inflation(_products(deviations) / squares, count)
    return math.sqrt(variance) * _STUDENT_95[count - 2] / _NORMAL_95


def is_tight(rate: Rate, tolerance: float) -> bool:
    """Whether the half-width of the 95 % interval is within `tolerance` (relative); an unknown one is not.

    Meant for a `rate` without the spread between bursts, which no longer burst makes smaller.
    """
    return rate.sem is not None and 1.96 * rate.sem <= tolerance * rate.value


def with_burst_spread(rate: Rate, spread: float) -> Rate:
    """`rate` with the relative `spread` (standard deviation) from burst to burst added to its standard error.

    No window can see that spread: a neighbour on the machine runs during the whole burst, or not at all. An unknown
    standard error stays unknown.
    """
    if rate.sem is None:
        return rate
    return rate._replace(sem=math.sqrt(rate.sem**2 + (spread * rate.value) ** 2))


def _total(durations_s: Sequence[float]) -> float:
    total = math.fsum(durations_s)
    if not math.isfinite(total) or (len(durations_s) and min(durations_s) < 0):
        raise ValueError("a step time is negative or not finite")
    return total


def _split(values: Sequence[float], parts: int) -> List[Sequence[float]]:
    """`values` in at most that many consecutive parts, as equal as can be."""
    count = len(values)
    parts = min(parts, count)
    return [values[i * count // parts : (i + 1) * count // parts] for i in range(parts)]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _noise_of_change(before: List[float], after: List[float], change: float) -> float:
    """The standard error of the difference of the two medians, from the scatter about them.

    A drift or a step between them is no noise: the scatter is about two levels or about two pieces of the line with
    the slope of the change, whichever fits better.
    """
    slope = change * 2 / (len(before) + len(after))
    return min(_noise_about(before, after, 0.0), _noise_about(before, after, slope))


def _noise_about(before: List[float], after: List[float], slope: float) -> float:
    residuals = []
    for part in (before, after):
        centre = _median(part)
        residuals += [value - centre - slope * (i - (len(part) - 1) / 2) for i, value in enumerate(part)]
    count = len(residuals)
    squares = sorted(r * r for r in residuals)[: count * 4 // 5]
    # 1.51: from the root mean square of the smaller four fifths to sigma, of a normal distribution; 1.25: from a mean's
    # standard error to a median's; count - 2: two medians were fitted; 1 + 4 / count: as Student's t, for few blocks.
    sigma = 1.51 * math.sqrt(math.fsum(squares) / len(squares) * count / (count - 2))
    signs = [math.copysign(1.0, r) for r in residuals]
    r = math.sin(math.pi / 2 * _products(signs) / (count - 1))  # the correlation of normal values with such signs
    variance = sigma * sigma * (1 / len(before) + 1 / len(after)) * _inflation(r, count)
    return 1.25 * (1 + 4 / count) * math.sqrt(variance)


def _products(values: Sequence[float]) -> float:
    """The sum of the products of neighbours."""
    return math.fsum(values[i] * values[i + 1] for i in range(len(values) - 1))


def _inflation(r: float, count: int) -> float:
    """By what the variance of a mean of `count` values grows where neighbours correlate by r as it was estimated."""
    r = min(max(r + (1 + 3 * r) / count, 0.0), 0.9)  # of so few values, r above 0.9 is a random walk: it has no mean
    return (1 + r) / (1 - r)
