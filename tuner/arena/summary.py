"""Figures of a comparison: a row for each strategy, and regret along the cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tuner.arena.result import Run

NEVER = 99  # bursts, of a study that never came near enough
_ROUNDING = 1e-9

Axis = Literal["bursts", "seconds", "joules"]


@dataclass(frozen=True)
class Summary:
    """One strategy over all its studies; None where no study has the figure.

    Attributes:
        strategy: Its name.
        studies: How many were made.
        to_two_percent: Bursts until a truly feasible setting within 2 % of the optimum, median; never counts as 99.
        to_two_percent_p90: The same, 90th percentile. Studies without a feasible setting are in neither.
        within_two_percent: Share of studies frozen within 2 % of what is certifiable.
        within_seven_percent: The same within 7 %.
        bursts: Mean number until the end, confirmation included.
        violations: Bursts above the cap per study.
        violations_over_5pct: Those by more than 5 %.
        frozen_above: Share of frozen settings truly above the cap by more than 1 %.
        regret: Mean of the frozen settings.
        suggest_s: Seconds of a suggestion, median.
        search_s: Seconds on the device per study, mean.
        search_j: Joules per study, mean; None where no power is recorded.
    """

    strategy: str
    studies: int
    to_two_percent: float | None
    to_two_percent_p90: float | None
    within_two_percent: float | None
    within_seven_percent: float | None
    bursts: float
    violations: float
    violations_over_5pct: float
    frozen_above: float | None
    regret: float | None
    suggest_s: float | None
    search_s: float
    search_j: float | None


def summarize(runs: Sequence[Run]) -> list[Summary]:
    """A row for each strategy, in the order they come."""
    return [_summary(name, [run for run in runs if run.strategy == name]) for name in strategies_of(runs)]


def strategies_of(runs: Sequence[Run]) -> list[str]:
    """The strategies' names, each once."""
    return list(dict.fromkeys(run.strategy for run in runs))


def bursts_to(run: Run, regret: float) -> int:
    """The number of the first burst after which the regret is at most `regret`; 99 where there is none."""
    return next((i for i, r in enumerate(run.regret, start=1) if r <= regret + _ROUNDING), NEVER)


def _summary(strategy: str, runs: Sequence[Run]) -> Summary:
    reached = [bursts_to(run, 0.02) for run in runs if run.optimum is not None]
    certified = [
        run.frozen.regret_certifiable if run.frozen is not None else None for run in runs if run.certifiable is not None
    ]
    frozen = [(run.cap_w, run.frozen) for run in runs if run.frozen is not None]
    above = [cap_w is not None and f.power_w is not None and f.power_w > 1.01 * cap_w for cap_w, f in frozen]
    metered = [run.search_energy_j for run in runs if run.energies_j]

    def within(limit: float) -> float | None:
        return _mean([regret is not None and regret <= limit + _ROUNDING for regret in certified])

    return Summary(
        strategy=strategy,
        studies=len(runs),
        to_two_percent=float(np.median(reached)) if reached else None,
        to_two_percent_p90=float(np.percentile(reached, 90, method="inverted_cdf")) if reached else None,
        within_two_percent=within(0.02),
        within_seven_percent=within(0.07),
        bursts=_mean([len(run.settings) for run in runs]) or 0.0,
        violations=_mean([run.violations for run in runs]) or 0.0,
        violations_over_5pct=_mean([run.violations_over_5pct for run in runs]) or 0.0,
        frozen_above=_mean(above),
        regret=_mean([f.regret for _, f in frozen if f.regret is not None]),
        suggest_s=_median([seconds for run in runs for seconds in run.suggest_s]),
        search_s=_mean([run.search_time_s for run in runs]) or 0.0,
        search_j=_mean(metered),
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


@dataclass(frozen=True)
class Curve:
    """Regret of a strategy along a cost: arrays of one length.

    Attributes:
        at: Cost, in bursts, seconds or joules.
        low: First quartile of the regret over the studies.
        median: Median.
        high: Third quartile.
    """

    at: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    median: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


_COSTS: dict[Axis, Callable[[Run], Sequence[float]]] = {
    "bursts": lambda run: range(1, len(run.regret) + 1),
    "seconds": lambda run: run.times_s,
    "joules": lambda run: run.energies_j,
}


def costs_of(run: Run, axis: Axis) -> Sequence[float]:
    """What was spent at the end of each entry of a run; empty where that is not recorded."""
    return _COSTS[axis](run)


def curve(runs: Sequence[Run], axis: Axis, at: npt.NDArray[np.float64]) -> Curve | None:
    """Regret of those runs where `at` was spent: 1 before the first burst's end, after the last one what it left.

    Only the points of `at` between which it changes are given. None where no run has an optimum and that cost.
    """
    lines = []
    for run in runs:
        costs = costs_of(run, axis)
        if run.optimum is not None and len(costs):
            ended = np.searchsorted(np.asarray(costs, dtype=float), at, side="right")
            lines.append(np.concatenate(([1.0], run.regret))[ended])
    if not lines:
        return None
    quartiles = np.percentile(np.array(lines), (25, 50, 75), axis=0)
    turns = np.ones(len(at), dtype=bool)  # inside a level stretch a point tells nothing
    changes = (np.diff(quartiles) != 0).any(axis=0)
    turns[1:-1] = changes[:-1] | changes[1:]
    low, median, high = quartiles[:, turns]
    return Curve(at[turns], low, median, high)
