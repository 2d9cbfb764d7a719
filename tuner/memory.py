"""Which batch sizes fit into memory, by those that did and the smallest that did not, whatever the clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from devices.measurement import Status

_FITTED = (Status.OK, Status.OVER_CAP, Status.THROTTLED)
_UNKNOWN = 1 / 4  # of the smallest batch that did not fit: taken to fit where no other was tried


class Memory(NamedTuple):
    """What is known of the largest batch: at least `fitted`, less than `failed` samples."""

    fitted: float = 0.0
    failed: float = math.inf

    @classmethod
    def of(cls, bursts: Iterable[tuple[float, Status | None]]) -> Memory:
        """From batch sizes and how their bursts ended."""
        bursts = list(bursts)
        failed = min((float(batch) for batch, status in bursts if status is Status.OOM), default=math.inf)
        fitted = max((float(b) for b, status in bursts if status in _FITTED and b < failed), default=0.0)
        return cls(fitted, failed)

    @property
    def _fitted(self) -> float:
        return self.fitted or self.failed * _UNKNOWN

    def open(self, batches: Iterable[float]) -> list[float]:
        """Those to try next: up to half way, in the logarithm, from the one that fitted to the one that did not, so
        that the limit is found by bisection; at least one of those in between, if there are any."""
        below = [batch for batch in batches if batch < self.failed]
        if math.isinf(self.failed):
            return below
        half_way = math.sqrt(self._fitted * self.failed)
        next_larger = min((batch for batch in below if batch > self.fitted), default=0.0)
        return [batch for batch in below if batch <= max(half_way, next_larger)]

    def chance(self, batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """P(a batch fits), shape (n,): the limit is as likely in one octave as in another."""
        if math.isinf(self.failed):
            return np.ones_like(batch)
        share = np.log(self.failed / batch) / math.log(self.failed / self._fitted)
        return np.asarray(np.clip(share, 0.0, 1.0))
