"""A trial: a setting with its state and, when done, its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from devices.device import Setting
from devices.measurement import Measurement, Status


class TrialState(StrEnum):
    """Where a trial stands. `asked` is on disk before the burst begins."""

    ASKED = "asked"
    RUNNING = "running"
    DONE = "done"
    ABANDONED = "abandoned"  # given up without a valid measurement; the last attempt's measurement says why


class Role(StrEnum):
    """Why a burst is made."""

    SEARCH = "search"
    CONFIRM = "confirm"  # repeats the setting that is about to be recommended
    BASELINE = "baseline"  # the setting people use without a tuner


@dataclass(frozen=True)
class Trial:
    """One burst of a study.

    Attributes:
        index: 0, 1, 2, ... in the order asked.
        setting: One value for each knob.
        state: See `TrialState`.
        role: Why it is made.
        attempts: How many bursts were made for it so far.
        measurement: The last attempt's, None before the first.
    """

    index: int
    setting: Setting
    state: TrialState = TrialState.ASKED
    role: Role = Role.SEARCH
    attempts: int = 0
    measurement: Measurement | None = None

    @property
    def valid(self) -> Measurement | None:
        """The measurement where it counts as one (status `ok`), else None."""
        return self.measurement if self.measurement is not None and self.measurement.ok else None

    @property
    def pending(self) -> bool:
        """Whether it still has to be measured."""
        return self.state in (TrialState.ASKED, TrialState.RUNNING)

    @property
    def status(self) -> Status | None:
        """The last attempt's status."""
        return self.measurement.status if self.measurement is not None else None
