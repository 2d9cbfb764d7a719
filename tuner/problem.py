"""What a strategy is given: the problem, fixed for a study, and what follows from its trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from devices.device import BATCH_KNOB, Setting
from devices.profile import Profile, ProfileMetadata
from tuner.goal import Cap, Goal
from tuner.memory import Memory
from tuner.space import Space
from tuner.trial import Trial

_NAMED, _UNNAMED, _OTHER = 0.9, 0.5, 0.1
_RECORD = 0.9  # weight of a record's memory: its workload may have been a larger one


@dataclass(frozen=True)
class Problem:
    """What defines a study, from space to what a record of it would say of itself. With the trials it determines every
    suggestion."""

    space: Space
    goal: Goal
    cap: Cap | None
    seed: int = 0
    prior: tuple[Profile, ...] = ()
    device: str | None = None
    about: ProfileMetadata | None = None

    def sameness(self, record: Profile) -> float:
        """P(an earlier record is of the same device and workload), by what it says of itself and what was held fixed.

        What either does not say may be the same.
        """
        if self.about is None:
            return _UNNAMED
        ours = {**self.about.extra, "device": self.about.device, "workload": self.about.workload}
        theirs = {**record.metadata.extra, "device": record.metadata.device, "workload": record.metadata.workload}
        if any(ours[key] and theirs.get(key) and ours[key] != theirs[key] for key in ours):
            return _OTHER
        return _NAMED if theirs["device"] and theirs["workload"] else _UNNAMED

    def open_space(self, trials: Sequence[Trial]) -> Space:
        """The space that is left to try: below the smallest batch size that ran out of memory, and for now not nearer
        to it than half way from the largest that fitted."""
        memory = self._memory(trials)
        if math.isinf(memory.failed):
            return self.space
        batches = next(knob.values for knob in self.space.knobs if knob.name == BATCH_KNOB)
        return self.space.part({BATCH_KNOB: memory.open(batches)})

    def fits(self, trials: Sequence[Trial], settings: Sequence[Setting]) -> npt.NDArray[np.float64]:
        """P(the batch fits into memory) at n settings, shape (n,), by the trials and, unless these tell otherwise, by
        earlier records."""
        if BATCH_KNOB not in self.space.names:
            return np.ones(len(settings))
        batch = np.array([float(setting[BATCH_KNOB]) for setting in settings])
        memory = self._memory(trials)
        found = memory.chance(batch)
        for record in self.prior:
            if BATCH_KNOB in record.knob_names:
                recorded = Memory.of((row.setting[BATCH_KNOB], row.status) for row in record.rows)
                if recorded.failed > memory.fitted:
                    found = found * (1 - _RECORD + _RECORD * recorded.chance(batch))
        return found

    def _memory(self, trials: Sequence[Trial]) -> Memory:
        if BATCH_KNOB not in self.space.names:
            return Memory()
        return Memory.of((trial.setting[BATCH_KNOB], trial.status) for trial in trials)
