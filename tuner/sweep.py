"""What is left to measure of a grid, and in which order: decided by the rows that are there, and by nothing else."""

from __future__ import annotations

import math
import random
from functools import cached_property

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Status
from tuner.record_file import RecordFile
from tuner.space import Space
from tuner.study import MAX_ATTEMPTS, RETRIED

REPEATED = RETRIED | {Status.TIMEOUT}
"""How a burst ends that says little of its setting."""


class Sweep:
    """Passes over the settings of a space, each in an order of its own.

    Whatever was recorded in whichever order, the next burst follows from the rows: a sweep that was interrupted goes on
    as if it had not been.

    Args:
        space: The grid.
        record: The bursts made; it grows.
        repeats: Passes.
        seed: Of the orders.
    """

    def __init__(self, space: Space, record: RecordFile, repeats: int, seed: int) -> None:
        self._space = space
        self._record = record
        self._repeats = repeats
        self._seed = seed

    @property
    def bursts(self) -> int:
        """Bursts of the whole grid."""
        return len(self._space) * self._repeats

    @property
    def done(self) -> int:
        """Rows of the grid that are recorded, those included whose burst is to be repeated."""
        return sum(min(len(self._record.bursts(setting)), self._repeats) for setting in self._space.settings)

    @property
    def left(self) -> int:
        """Bursts to be made, as far as is known: running out of memory makes it fewer, failures make it more."""
        limit, left = self._memory_limit(), 0
        for setting in self._space.settings:
            if not self._is_beyond(setting, limit):
                left += max(self._repeats - len(self._record.bursts(setting)), 0) + self._waits(setting)
        return left

    @property
    def skipped(self) -> int:
        """Settings left out because a batch as large or smaller ran out of memory."""
        limit = self._memory_limit()
        return sum(self._is_beyond(s, limit) and not self._record.bursts(s) for s in self._space.settings)

    def next(self) -> tuple[Setting, bool] | None:
        """The setting to measure next, and whether that repeats its last burst; None: the grid is measured."""
        limit = self._memory_limit()
        for number, order in enumerate(self._orders):
            fitting = [setting for setting in order if not self._is_beyond(setting, limit)]
            for setting in fitting:
                if len(self._record.bursts(setting)) <= number:
                    return setting, False
            for setting in fitting:
                if self._waits(setting):
                    return setting, True
        return None

    @cached_property
    def _orders(self) -> list[list[Setting]]:
        orders = []
        for number in range(self._repeats):
            order = list(self._space.settings)
            random.Random(f"{self._seed} {number}").shuffle(order)
            orders.append(order)
        return orders

    def _waits(self, setting: Setting) -> bool:
        """Whether the last burst at `setting` is to be repeated."""
        bursts = self._record.bursts(setting)
        return bool(bursts) and bursts[-1].row.status in REPEATED and bursts[-1].attempts < MAX_ATTEMPTS

    def _memory_limit(self) -> float:
        """The smallest batch size that ran out of memory, whatever the other knobs were."""
        full = (row.setting for row in self._record.rows if row.status is Status.OOM)
        return min((setting.get(BATCH_KNOB, math.inf) for setting in full), default=math.inf)

    def _is_beyond(self, setting: Setting, limit: float) -> bool:
        if BATCH_KNOB in setting:
            return setting[BATCH_KNOB] >= limit
        return any(burst.row.status is Status.OOM for burst in self._record.bursts(setting))
