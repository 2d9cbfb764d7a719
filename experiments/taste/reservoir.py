"""A memory of a stream in which every sample seen so far is equally likely to be kept."""

from __future__ import annotations

import random


class Reservoir:
    """Vitter 1985, ACM TOMS 11(1), algorithm R: the n-th sample replaces a random one with probability capacity / n.

    Args:
        capacity: Samples that are kept at most.
        keeping: Decides what is kept. It is asked for one number a sample once the memory is full, whatever is drawn
            meanwhile, so that what is kept depends on the stream alone.
        drawing: Decides what is replayed.
    """

    def __init__(self, capacity: int, keeping: random.Random, drawing: random.Random) -> None:
        self.kept: list[int] = []
        self._capacity = capacity
        self._keeping = keeping
        self._drawing = drawing
        self._seen = 0

    def add(self, sample: int) -> None:
        """See the next sample of the stream."""
        self._seen += 1
        if len(self.kept) < self._capacity:
            self.kept.append(sample)
            return
        place = self._keeping.randrange(self._seen)
        if place < self._capacity:
            self.kept[place] = sample

    def draw(self, count: int) -> list[int]:
        """`count` different samples of those kept, all of them where they are fewer."""
        return self._drawing.sample(self.kept, min(count, len(self.kept)))
