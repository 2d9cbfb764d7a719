"""The search space: ordered knobs and the settings that can be measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting, knob_value

Key = tuple[float, ...]
"""A setting as a tuple of its values in the order of the space's knobs; hashable."""


@dataclass(frozen=True)
class Product(Sequence[Setting]):
    """Every combination of the knobs' values, the last knob varying fastest: made when asked for, never held.

    Attributes:
        knobs: The knobs.
        left_out: Ranks of combinations that are left out, ascending.
    """

    knobs: tuple[Knob, ...]
    left_out: tuple[int, ...] = ()

    def __len__(self) -> int:
        return math.prod(len(knob.values) for knob in self.knobs) - len(self.left_out)

    def __iter__(self) -> Iterator[Setting]:
        names, left_out = [knob.name for knob in self.knobs], set(self.left_out)
        for rank, values in enumerate(itertools.product(*(knob.values for knob in self.knobs))):
            if rank not in left_out:
                yield dict(zip(names, values, strict=True))

    @overload
    def __getitem__(self, index: int) -> Setting: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Setting, ...]: ...

    def __getitem__(self, index: int | slice) -> Setting | tuple[Setting, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(len(self))[index])
        rank = range(len(self))[index]
        for left_out in self.left_out:
            rank += left_out <= rank
        values = {}
        for knob in reversed(self.knobs):
            rank, i = divmod(rank, len(knob.values))
            values[knob.name] = knob.values[i]
        return {knob.name: values[knob.name] for knob in self.knobs}

    def __contains__(self, setting: object) -> bool:
        return self._rank(setting) not in (None, *self.left_out)

    def without(self, settings: Iterable[Setting]) -> Product:
        """The combinations that are not among `settings`."""
        ranks = {rank for setting in settings if (rank := self._rank(setting)) is not None}
        return Product(self.knobs, tuple(sorted(ranks.union(self.left_out))))

    def _rank(self, setting: object) -> int | None:
        rank = 0
        for knob in self.knobs:
            value = setting.get(knob.name) if isinstance(setting, Mapping) else None
            if value not in knob.values:
                return None
            rank = rank * len(knob.values) + knob.values.index(value)
        return rank


@dataclass(frozen=True)
class Space:
    """Knobs and settings of one study.

    Attributes:
        knobs: In the device's order; values ascending.
        settings: Every setting that can be measured: the `Product` of the knobs, which may be millions, or a list of
            those a profile records.
    """

    knobs: tuple[Knob, ...]
    settings: Sequence[Setting]

    @classmethod
    def of(cls, info: DeviceInfo) -> Space:
        """The whole space of a device."""
        return cls(info.knobs, Product(info.knobs) if info.settings is None else info.settings)

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
        return setting in self.settings if isinstance(self.settings, Product) else self.key(setting) in self._keys

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

    def untried(self, tried: Iterable[Setting]) -> Sequence[Setting]:
        """The settings that are not among `tried`, in order."""
        if isinstance(self.settings, Product):
            return self.settings.without(tried)
        keys = {self.key(setting) for setting in tried}
        return [setting for setting in self.settings if self.key(setting) not in keys]

    def nearest(self, wanted: Setting, among: Sequence[Setting]) -> Setting:
        """The setting of `among` nearest to `wanted` in the coordinates of `features`; the first of several."""
        distances = ((self.features(among) - self.features([wanted])) ** 2).sum(axis=1)
        return among[int(distances.argmin())]

    def part(self, values: Mapping[str, Collection[float]]) -> Space:
        """The space in which the knobs named by `values` have these values only."""
        knobs = []
        for knob in self.knobs:
            kept = tuple(v for v in knob.values if knob.name not in values or v in values[knob.name])
            if not kept:
                return Space(self.knobs, ())
            knobs.append(Knob(knob.name, kept, knob.default))
        if isinstance(self.settings, Product):
            return Space(tuple(knobs), Product(tuple(knobs)))
        kept_settings = tuple(s for s in self.settings if all(s[name] in kept for name, kept in values.items()))
        return Space(tuple(knobs), kept_settings)

    def safe_start(self) -> Setting:
        """A first setting that hardly breaks a cap: every clock and limit at its lowest, the batch in the middle."""
        wanted = {
            knob.name: knob.values[(len(knob.values) - 1) // 2 if knob.name == BATCH_KNOB else 0] for knob in self.knobs
        }
        if wanted in self:
            return wanted

        def distance(setting: Setting) -> tuple[int, ...]:
            ranks = [abs(k.values.index(setting[k.name]) - k.values.index(wanted[k.name])) for k in self.knobs]
            return (sum(ranks), *ranks)

        return min(self.settings, key=distance)
