"""Means with 95 % intervals (Student), of paired differences and ratios too."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from scipy.stats import t

CONFIDENCE = 0.95
NEGLIGIBLE = 0.005  # of accuracy: half a point


class Interval(NamedTuple):
    """A mean, and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def is_negligible(self) -> bool:
        """Whether, as a difference in accuracy, it contains 0 or lies within half a point."""
        return self.low <= 0 <= self.high or max(abs(self.low), abs(self.high)) <= NEGLIGIBLE


def interval(values: Sequence[float]) -> Interval:
    """The mean of independent values with its interval.

    Raises:
        ValueError: fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("an interval takes two values or more")
    mean = statistics.fmean(values)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def difference(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The mean of `values` less `others`, which are pairs."""
    return interval([value - other for value, other in zip(values, others, strict=True)])


def ratio(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The geometric mean of `values` over `others`, which are pairs of numbers above 0."""
    logs = interval([math.log(value / other) for value, other in zip(values, others, strict=True)])
    return Interval(*map(math.exp, logs))
