"""What is true of a profile under a cap: recorded values without noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from devices.device import Setting
from devices.measurement import Statistic, Status
from devices.profile import Cell, Profile

CERTIFIABLE = 0.98  # of the cap: what a careful confirmation can vouch for


@dataclass(frozen=True)
class Truth:
    """The recorded values of a profile, the mean of its replicates at every setting, judged by a cap.

    Attributes:
        profile: The table.
        cap_w: The cap in watts, or None: everything that trained is feasible.
        statistic: The statistic of power the cap holds on.
    """

    profile: Profile
    cap_w: float | None
    statistic: Statistic

    @cached_property
    def optimum(self) -> Cell | None:
        """The fastest setting within the cap; None where there is none."""
        return self.profile.best_feasible(self.cap_w, self.statistic)

    @cached_property
    def certifiable(self) -> Cell | None:
        """The fastest setting within 98 % of the cap; None where there is none."""
        cap_w = None if self.cap_w is None else CERTIFIABLE * self.cap_w
        return self.profile.best_feasible(cap_w, self.statistic)

    @cached_property
    def _cells(self) -> dict[tuple[float, ...], Cell]:
        return {self.profile.key(cell.setting): cell for cell in self.profile.cells(self.statistic)}

    def cell(self, setting: Setting) -> Cell | None:
        """The means over the valid bursts at `setting`; None where none is recorded."""
        return self._cells.get(self.profile.key(setting))

    def power_w(self, setting: Setting) -> float | None:
        """The recorded power in watts; that of failed bursts (a guard's is a lower bound) where none was valid."""
        cell = self.cell(setting)
        if cell is not None:
            return cell.power_w
        powers = [p for row in self.profile.replicates(setting) if (p := row.power(self.statistic)) is not None]
        return fmean(powers) if powers else None

    def overshoot_w(self, setting: Setting) -> float:
        """Watts above the cap, 0 within it or where no power is recorded."""
        power_w = self.power_w(setting)
        return 0.0 if self.cap_w is None or power_w is None else max(power_w - self.cap_w, 0.0)

    def is_violation(self, setting: Setting) -> bool:
        """Whether a burst at `setting` is above the cap: by its recorded power or, without one, by the guard's word."""
        if self.cap_w is None:
            return False
        if self.power_w(setting) is None:
            rows = self.profile.replicates(setting)
            return self.cell(setting) is None and any(row.status is Status.OVER_CAP for row in rows)
        return self.overshoot_w(setting) > 0

    def is_feasible(self, setting: Setting) -> bool:
        """Whether `setting` trains within the cap."""
        cell = self.cell(setting)
        if cell is None or self.cap_w is None:
            return cell is not None
        return cell.power_w is not None and cell.power_w <= self.cap_w

    def regret(self, throughput: float, of: Cell | None) -> float | None:
        """1 - `throughput` / the throughput of `of`, never below 0; None where `of` is."""
        return None if of is None else max(1 - throughput / of.throughput, 0.0)
