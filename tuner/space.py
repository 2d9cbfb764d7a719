"""The search space: ordered knobs and the settings that can be measured, enumerated exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting, knob_value

Key = tuple[float, ...]
"""A setting as a tuple of its values in the order of the space's knobs; hashable."""


@dataclass(frozen=True)
class Space:
    """Knobs and settings of one study.

    Attributes:
        knobs: In the device's order; values ascending.
        settings: Every setting that can be measured; not always the full product of the knobs.
    """

    knobs: tuple[Knob, ...]
    settings: tuple[Setting, ...]

    @classmethod
    def of(cls, info: DeviceInfo) -> Space:
        """The whole space of a device."""
        return cls(info.knobs, tuple(info.enumerate_settings()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the knobs, in order."""
        return tuple(knob.name for knob in self.knobs)

    @cached_property
    def free(self) -> tuple[Knob, ...]:
        """The knobs with a choice."""
        return tuple(knob for knob in self.knobs if len(knob.values) > 1)

    def key(self, setting: Setting) -> Key:
        """`setting` as a hashable tuple."""
        return tuple(knob_value(setting[name]) for name in self.names)

    def setting(self, key: Key) -> Setting:
        """Inverse of `key`."""
        return dict(zip(self.names, key, strict=True))

    @cached_property
    def _keys(self) -> frozenset[Key]:
        return frozenset(self.key(setting) for setting in self.settings)

    def __contains__(self, setting: Setting) -> bool:
        return self.key(setting) in self._keys

    def __len__(self) -> int:
        return len(self.settings)

    def features(self, settings: Iterable[Setting]) -> npt.NDArray[np.float64]:
        """Coordinates for a surrogate: shape (n, d), d the number of free knobs, each in [0, 1].

        Knobs that span more than a factor of 8 are taken in the logarithm: batch sizes are, clocks are not.
        """
        columns = []
        settings = list(settings)
        for knob in self.free:
            low, high = knob.values[0], knob.values[-1]
            values = np.array([float(setting[knob.name]) for setting in settings])
            if low > 0 and high / low > 8:
                values, low, high = np.log(values), math.log(low), math.log(high)
            columns.append((values - low) / (high - low))
        return np.column_stack(columns) if columns else np.zeros((len(settings), 0))

    def untried(self, tried: Iterable[Setting]) -> list[Setting]:
        """The settings that are not among `tried`, in order."""
        keys = {self.key(setting) for setting in tried}
        return [setting for setting in self.settings if self.key(setting) not in keys]

    def nearest(self, wanted: Setting, among: Sequence[Setting]) -> Setting:
        """The setting of `among` nearest to `wanted` in the coordinates of `features`; the first of several."""
        distances = ((self.features(among) - self.features([wanted])) ** 2).sum(axis=1)
        return among[int(distances.argmin())]

    def below_batch(self, batch_size: float) -> Space:
        """The space of the batch sizes below `batch_size`: running out of memory bounds the batch at every clock."""
        knobs = []
        for knob in self.knobs:
            if knob.name == BATCH_KNOB:
                fitting = tuple(v for v in knob.values if v < batch_size)
                if not fitting:
                    return Space(self.knobs, ())
                knob = Knob(knob.name, fitting, knob.default)
            knobs.append(knob)
        return Space(tuple(knobs), tuple(s for s in self.settings if s[BATCH_KNOB] < batch_size))

    def safe_start(self) -> Setting:
        """A first setting that hardly breaks a cap: every clock and limit at its lowest, the batch in the middle."""

        def distance(setting: Setting) -> tuple[int, ...]:
            ranks = []
            for knob in self.knobs:
                rank = knob.values.index(setting[knob.name])
                ranks.append(abs(rank - (len(knob.values) - 1) // 2) if knob.name == BATCH_KNOB else rank)
            return (sum(ranks), *ranks)

        return min(self.settings, key=distance)
