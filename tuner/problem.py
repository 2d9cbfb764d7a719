"""What a strategy is given: the problem, fixed for a study, and what follows from its trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devices.device import BATCH_KNOB
from devices.measurement import Status
from devices.profile import Profile
from tuner.goal import Cap, Goal
from tuner.space import Space
from tuner.trial import Trial


@dataclass(frozen=True)
class Problem:
    """What defines a study, from space to the device's name. With the trials it determines every suggestion."""

    space: Space
    goal: Goal
    cap: Cap | None
    seed: int = 0
    prior: tuple[Profile, ...] = ()
    device: str | None = None

    def open_space(self, trials: Sequence[Trial]) -> Space:
        """The space that is left: below the smallest batch size that ran out of memory."""
        if BATCH_KNOB not in self.space.names:
            return self.space
        failed = [trial.setting[BATCH_KNOB] for trial in trials if trial.status is Status.OOM]
        return self.space.below_batch(min(failed)) if failed else self.space
