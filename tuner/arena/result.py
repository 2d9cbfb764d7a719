"""What a comparison gives: one `Run` a study, and what was skipped."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from devices.device import Setting
from devices.measurement import Source, Statistic


@dataclass(frozen=True)
class Frozen:
    """The setting a study recommended, by its recorded values.

    Attributes:
        setting: The setting.
        throughput: In the profile's unit.
        regret: 1 - throughput / that of the optimum, never below 0; None where there is no optimum.
        regret_certifiable: The same against the best setting within 98 % of the cap.
        power_w: Watts by the cap's statistic; None where none is recorded.
        feasible: Whether that is within the cap.
    """

    setting: Setting
    throughput: float
    regret: float | None
    regret_certifiable: float | None
    power_w: float | None
    feasible: bool


@dataclass(frozen=True)
class Run:
    """One study of a comparison. Every figure of merit is made of recorded values, without noise.

    A burst of k times the standard length has k entries in `settings`, `regret`, `times_s` and `energies_j`.

    Attributes:
        profile: The table's name.
        cap_w: Watts, or None: no cap.
        cap_on: The statistic of power the cap holds on.
        strategy: Its name.
        seed: Of strategy and noise.
        source: `replayed`, or `emulated` for a recorded emulation.
        optimum: Setting and throughput of the best within the cap; None where nothing is.
        certifiable: The same within 98 % of the cap.
        settings: Where bursts were made, in order, confirmation included.
        regret: After each entry: 1 - best truly feasible throughput so far / optimum; 1 while there is none.
        violations: Entries whose recorded power is above the cap.
        violations_over_5pct: Those above it by more than 5 %.
        worst_overshoot_w: Watts, the most of all entries; 0 where none is above the cap.
        frozen: What was recommended, or None.
        suggest_s: Seconds of each call of the strategy.
        times_s: Seconds on the device until the end of each entry.
        energies_j: Joules used until then; empty where no power is recorded.
        search_time_s: Seconds on the device.
        search_energy_j: Joules.
        stopped: Why the study ended: converged, budget, infeasible, or interrupted by failing bursts.
    """

    profile: str
    cap_w: float | None
    cap_on: Statistic | None
    strategy: str
    seed: int
    source: Source
    optimum: dict[str, Any] | None
    certifiable: dict[str, Any] | None
    settings: tuple[Setting, ...]
    regret: tuple[float, ...]
    violations: int
    violations_over_5pct: int
    worst_overshoot_w: float
    frozen: Frozen | None
    suggest_s: tuple[float, ...]
    times_s: tuple[float, ...]
    energies_j: tuple[float, ...]
    search_time_s: float
    search_energy_j: float
    stopped: str

    def to_json(self) -> dict[str, Any]:
        """The object of `tune compare --json`."""
        return asdict(self)


@dataclass(frozen=True)
class Skipped:
    """A strategy that does not apply to a profile, and why."""

    strategy: str
    profile: str
    reason: str
