"""From the bursts of a study to its figures of merit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from devices.device import Setting
from devices.profile import Cell
from tuner.arena.result import Frozen
from tuner.arena.truth import Truth

_FAR = 1.05  # times the cap


@dataclass(frozen=True)
class Burst:
    """One burst as the device was asked for it.

    Attributes:
        setting: Where.
        length: How many times the standard length it took.
        cost_s: Seconds on the device.
        cost_j: Joules.
    """

    setting: Setting
    length: int
    cost_s: float
    cost_j: float


def figures_of(bursts: Sequence[Burst], truth: Truth) -> dict[str, Any]:
    """The fields of a `Run` that follow from its bursts."""
    entries = [burst for burst in bursts for _ in range(burst.length)]
    settings = tuple(dict(burst.setting) for burst in entries)
    overshoots_w = [truth.overshoot_w(setting) for setting in settings]
    cap_w = truth.cap_w
    metered = bool(truth.profile.statistics)
    return {
        "optimum": _found(truth.optimum),
        "certifiable": _found(truth.certifiable),
        "settings": settings,
        "regret": _regret(settings, truth),
        "violations": sum(truth.is_violation(setting) for setting in settings),
        "violations_over_5pct": sum(cap_w is not None and cap_w + over > _FAR * cap_w for over in overshoots_w),
        "worst_overshoot_w": max(overshoots_w, default=0.0),
        "times_s": tuple(accumulate(burst.cost_s / burst.length for burst in entries)),
        "energies_j": tuple(accumulate(burst.cost_j / burst.length for burst in entries)) if metered else (),
        "search_time_s": sum(burst.cost_s for burst in bursts),
        "search_energy_j": sum(burst.cost_j for burst in bursts),
    }


def frozen_of(setting: Setting, truth: Truth) -> Frozen | None:
    """What is true of the setting that was recommended; None where no valid burst is recorded there."""
    cell = truth.cell(setting)
    if cell is None:
        return None
    return Frozen(
        setting=dict(setting),
        throughput=cell.throughput,
        regret=truth.regret(cell.throughput, truth.optimum),
        regret_certifiable=truth.regret(cell.throughput, truth.certifiable),
        power_w=cell.power_w,
        feasible=truth.is_feasible(setting),
    )


def _found(cell: Cell | None) -> dict[str, Any] | None:
    return None if cell is None else {"setting": dict(cell.setting), "throughput": cell.throughput}


def _regret(settings: Sequence[Setting], truth: Truth) -> tuple[float, ...]:
    best, regrets = 0.0, []
    for setting in settings:
        cell = truth.cell(setting)
        if cell is not None and truth.is_feasible(setting):
            best = max(best, cell.throughput)
        regrets.append(1.0 if best == 0 else truth.regret(best, truth.optimum))
    return tuple(1.0 if regret is None else regret for regret in regrets)
