"""The ledger of a training: energy, power and time above the cap, from its first step on, over all resumptions.

It lies beside the checkpoints, so that what a training that was killed has drawn is not forgotten.
"""

import json
import math
import os
from typing import Any, Dict, List, Optional, Sequence

from .power import LONGEST_GAP_S, Sample

NAME = "power.json"
_MOST_CHANGES = 1000  # the last ones are kept
_FIGURES = ("energy_j", "metered_s", "unmetered_s", "peak_w", "over_cap_s")


class Ledger:
    """What was drawn so far.

    Args:
        folder: Of the checkpoints; None: nothing is kept on disk.
        resume: Go on with the ledger that is there, if it can be read.

    Attributes:
        energy_j, metered_s: Joules, and the seconds in which they were measured.
        unmetered_s: Seconds without a reading for longer than 0.5 s each time.
        peak_w: The highest reading.
        over_cap_s: Seconds in which the cap's statistic was above the cap.
        changes: Every change of a clock or the cap: `knob`, `from`, `to`, `reason`, `at_s` of the training.
    """

    def __init__(self, folder: Optional[str], resume: bool) -> None:
        self._path = None if folder is None else os.path.join(folder, NAME)
        self.energy_j = self.metered_s = self.unmetered_s = self.peak_w = self.over_cap_s = 0.0
        self.changes: List[Dict[str, Any]] = []
        self._last: Optional[Sample] = None
        if resume and self._path is not None:
            self._read(self._path)

    def add(self, samples: Sequence[Sample]) -> None:
        """Take in samples that are newer than those before."""
        for sample in samples:
            self.peak_w = max(self.peak_w, sample.total_w)
            if self._last is not None:
                seconds = sample.time_s - self._last.time_s
                if seconds > LONGEST_GAP_S:
                    self.unmetered_s += seconds
                else:
                    self.metered_s += seconds
                    self.energy_j += seconds * (self._last.total_w + sample.total_w) / 2
            self._last = sample

    def changed(self, change: Dict[str, Any]) -> None:
        """Take in a change of a knob or the cap."""
        self.changes = (self.changes + [change])[-_MOST_CHANGES:]

    def figures(self, capped: bool) -> Dict[str, Any]:
        """Keys of `devices.training.TrainingResult`; None for what was not measured."""
        known = self.metered_s > 0
        return {
            "energy_j": self.energy_j if known else None,
            "power_mean_w": self.energy_j / self.metered_s if known else None,
            "power_peak_w": self.peak_w if known else None,
            "time_over_cap_s": self.over_cap_s if known and capped else None,
            "unmetered_s": self.unmetered_s if known else None,
            "changes": self.changes,
        }

    def save(self) -> None:
        """Write it, whole or not at all; a folder that is gone, or full, is the trainer's to report."""
        if self._path is None:
            return
        draft = self._path + ".partial"
        try:
            with open(draft, "w", encoding="utf-8") as file:
                json.dump(dict({name: getattr(self, name) for name in _FIGURES}, changes=self.changes), file)
            os.replace(draft, self._path)
        except OSError:
            pass

    def _read(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            values = {name: float(found[name]) for name in _FIGURES}
            changes = [dict(change) for change in found["changes"]]
        except (OSError, ValueError, KeyError, TypeError):  # none, or no ledger: it begins anew
            return
        if all(math.isfinite(value) and value >= 0 for value in values.values()):
            self.__dict__.update(values, changes=changes)
