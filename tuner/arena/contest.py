"""Which studies a comparison makes, and what can be wrong with it before the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devices.device import DeviceInfo
from devices.errors import InputError, UnsupportedError
from devices.measurement import STATISTICS, Statistic
from devices.profile import Profile, read_profile
from devices.replay import ReplayDevice
from tuner.arena.caps import CapSpec
from tuner.checks import check_record, gives_away
from tuner.strategies import STRATEGIES, open_strategy
from tuner.study import DEFAULT_BURSTS, MAX_ATTEMPTS, RETRIED

FULL_GRID = ("lut",)
"""Strategies that measure everything: their budget is whatever that takes, and confirms it, whatever is asked for."""
CONFIRMATIONS = 5
"""Bursts of theirs after the last setting: what the study keeps for confirmation must not come out of the table."""


@dataclass(frozen=True)
class Table:
    """A profile with the name that results are told under, such as its path."""

    name: str
    profile: Profile


def read_tables(paths: Sequence[Path]) -> tuple[Table, ...]:
    """The profiles of those files; a file named twice is taken once.

    Raises:
        ProfileError: a file that cannot be used.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        files.setdefault(path.resolve(), path)
    return tuple(Table(str(path), read_profile(path)) for path in files.values())


@dataclass(frozen=True)
class Task:
    """One study to be made.

    Attributes:
        table: Index of its profile in the contest.
        cap_w: Watts, or None: no cap.
        strategy: Its name.
        seed: Of strategy and noise.
    """

    table: int
    cap_w: float | None
    strategy: str
    seed: int


@dataclass(frozen=True)
class Contest:
    """Strategies x profiles x caps x seeds. Strategies and caps named twice are taken once.

    Attributes:
        tables: The profiles.
        strategies: Names, as `open_strategy` takes them.
        caps: Caps, each on every profile; empty: no cap.
        seeds: Seeds 0, 1, ... to be used for each.
        bursts: Budget of a study; `FULL_GRID` has its own.
        noise_throughput: Added to the recorded values, relative standard deviation (see `ReplayDevice`).
        noise_power: The same for power.
        cap_on: The statistic the caps hold on; None: p95 where recorded, else peak, else mean.
        transfer: Records that every study may learn from before its first burst.

    Raises:
        InputError: a number or name that cannot be, a profile that records no power for a cap, a record to transfer
            that gives the answer away or has nothing in common.
    """

    tables: tuple[Table, ...]
    strategies: tuple[str, ...]
    caps: tuple[CapSpec, ...] = ()
    seeds: int = 1
    bursts: int = DEFAULT_BURSTS
    noise_throughput: float = 0.0
    noise_power: float = 0.0
    cap_on: Statistic | None = None
    transfer: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        if not self.tables or not self.strategies:
            raise InputError("a comparison needs a profile and a strategy or more", hint="tune compare --help")
        for what, number in (("seeds", self.seeds), ("bursts", self.bursts)):
            if number < 1:
                raise InputError(f"a comparison needs one or more {what}, not {number}", hint=f"--{what} 10")
        if self.cap_on is not None and not self.caps:
            raise InputError("a statistic of power without a cap", hint="--cap 25%, or leave --cap-on out")
        if self.cap_on is not None and self.cap_on not in STATISTICS:
            raise InputError(f"'{self.cap_on}' is no statistic of power", hint=f"--cap-on {' | '.join(STATISTICS)}")
        for name in self.strategies:
            if name not in STRATEGIES:  # the variants of one, or nothing
                open_strategy(name)
        for table in self.tables:
            info = self.device(table, seed=0).describe()
            if self.caps:
                self._check_cap(table, info)
            self._check_transfer(table, info)

    def device(self, table: Table, seed: int) -> ReplayDevice:
        """What a study of that profile is answered by."""
        return ReplayDevice(
            table.profile, seed=seed, noise_throughput=self.noise_throughput, noise_power=self.noise_power
        )

    def statistic(self, table: Table) -> Statistic | None:
        """The statistic of power the caps hold on, on that profile; None without a cap."""
        return (self.cap_on or table.profile.statistics[0]) if self.caps else None

    def budget(self, task: Task) -> int:
        """Bursts of a study, confirmation included."""
        if task.strategy in FULL_GRID:
            profile = self.tables[task.table].profile
            emulated = profile.metadata.provenance == "emulated"  # of such a record failures are tried again
            failing = {profile.key(row.setting) for row in profile.rows if emulated and row.status in RETRIED}
            return len(profile.settings) + (MAX_ATTEMPTS - 1) * len(failing) + CONFIRMATIONS
        return self.bursts

    def tasks(self) -> list[Task]:
        """All studies: profile by profile, cap by cap, strategy by strategy, seed by seed."""
        return [
            Task(index, cap_w, strategy, seed)
            for index, table in enumerate(self.tables)
            for cap_w in self._caps_w(table)
            for strategy in dict.fromkeys(self.strategies)
            for seed in range(self.seeds)
        ]

    def _caps_w(self, table: Table) -> list[float | None]:
        return list(dict.fromkeys(cap.resolve(table.profile, table.name) for cap in self.caps)) or [None]

    def _check_cap(self, table: Table, info: DeviceInfo) -> None:
        if not info.statistics:
            raise UnsupportedError(
                f"{table.name} does not record power_mean_w in every valid row, so no cap can be held",
                hint="leave --cap, or that profile, out",
            )
        if self.statistic(table) not in info.statistics:
            raise UnsupportedError(
                f"{table.name} does not record the {self.cap_on} of power",
                hint=f"--cap-on {' | '.join(info.statistics)}",
            )
        self._caps_w(table)

    def _check_transfer(self, table: Table, info: DeviceInfo) -> None:
        for record in self.transfer:
            if gives_away(record.profile, table.profile):
                raise InputError(
                    f"--transfer {record.name} is the table being tuned, {table.name}: its answer would be known",
                    hint="another --transfer, or none",
                )
            check_record(record.profile, f"--transfer {record.name}", info.knobs)
