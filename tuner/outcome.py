"""What a study ended with, and the document `tune run --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from devices.device import BATCH_KNOB, DeviceInfo, Setting
from devices.measurement import Measurement, Status
from tuner.evidence import Evidence, pool
from tuner.goal import Cap
from tuner.problem import Problem
from tuner.recommend import Verdict, comparison, judge
from tuner.trial import Trial


class Stopped(StrEnum):
    """Why a study ended."""

    CONVERGED = "converged"
    BUDGET = "budget"
    INFEASIBLE = "infeasible"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Outcome:
    """The end of a study, or a look at one that runs.

    Attributes:
        study: Its name.
        info: The device.
        problem: Space, goal, cap and seed.
        trials: All of them.
        verdict: Best measured and recommended setting.
        comparison: The setting people use without a tuner, its clock lowered where it breaks the cap; None where
            none is known or likely to hold the cap.
        baseline: What it measured, or None.
        stopped: Why it ended; None while it has not.
    """

    study: str
    info: DeviceInfo
    problem: Problem
    trials: tuple[Trial, ...]
    verdict: Verdict
    comparison: Setting | None
    baseline: Evidence | None
    stopped: Stopped | None

    def baseline_json(self) -> dict[str, Any] | None:
        """The baseline with a trial's keys; `slowed` where the default breaks the cap and its clock was lowered."""
        if self.baseline is None:
            return None
        entry = evidence_json(self.baseline, self.trials, self.problem)
        default = self.info.default_setting
        setting = self.baseline.setting
        slowed = default is not None and dict(setting) != dict(default) and _same_batch(setting, default)
        return {**entry, "slowed": slowed}

    def baseline_note(self) -> str | None:
        """What has to be said of the baseline, or of its absence."""
        default = self.info.default_setting
        if default is None or self.verdict.recommended is None:
            return None
        if self.comparison is None:
            return "the default batch size is not likely to hold the cap at any clock of the GPU, or any limit"
        if self.baseline is None:
            return "the default was not measured within the budget"
        if not _same_batch(self.comparison, default):
            return "the default batch size is not among the values: the nearest one is compared"
        if dict(self.comparison) != dict(default):
            return "the default is above the cap: its clock or limit was lowered, as people do"
        return None

    def to_json(self, frozen: str | None = None) -> dict[str, Any]:
        """The document of `tune run --json`; `frozen` is the path of the frozen config, if one was written."""
        cap, verdict = self.problem.cap, self.verdict
        recommended = None
        if verdict.recommended is not None:
            measured = evidence_json(verdict.recommended, self.trials, self.problem)
            recommended = {
                "setting": measured["setting"],
                "throughput": measured["throughput"],
                "power_w": verdict.recommended.power.value if verdict.recommended.power else measured["power_mean_w"],
                "feasible_probability": verdict.feasible_probability,
                "bursts": measured["bursts"],
                "energy_per_sample_j": measured["energy_per_sample_j"],
            }
        best = verdict.best_measured
        return {
            "study": self.study,
            "device": self.info.name,
            "source": self.info.source,
            "goal": self.problem.goal.name,
            "throughput_unit": self.info.throughput_unit,
            "cap": {"watts": cap.watts, "statistic": cap.statistic} if cap else None,
            "held_fixed": dict(self.info.held_fixed),
            "trials": [trial_json(trial, cap) for trial in self.trials],
            "best_measured": evidence_json(best, self.trials, self.problem) if best else None,
            "recommended": recommended,
            "baseline": self.baseline_json(),
            "baseline_note": self.baseline_note(),
            "default_setting": dict(self.info.default_setting) if self.info.default_setting else None,
            "search_time_s": sum(t.measurement.cost_s for t in self.trials if t.measurement),
            "search_energy_j": sum(t.measurement.cost_j for t in self.trials if t.measurement),
            "stopped": self.stopped.value if self.stopped else None,
            "frozen": frozen,
        }


def _same_batch(setting: Setting, default: Setting) -> bool:
    return setting.get(BATCH_KNOB) == default.get(BATCH_KNOB)


def assess(
    study: str,
    info: DeviceInfo,
    problem: Problem,
    trials: Sequence[Trial],
    stopped: Stopped | None,
    verdict: Verdict | None = None,
) -> Outcome:
    """Where a study stands; `verdict` is judged anew where it is not given."""
    verdict = verdict or judge(problem, trials)
    setting = comparison(problem, trials, info.default_setting) if verdict.recommended is not None else None
    baseline = pool(problem, trials).get(problem.space.key(setting)) if setting is not None else None
    return Outcome(study, info, problem, tuple(trials), verdict, setting, baseline, stopped)


_METRICS = (
    "throughput",
    "power_mean_w",
    "power_p95_w",
    "power_peak_w",
    "energy_per_sample_j",
    "duration_s",
)


def is_feasible(measurement: Measurement | None, cap: Cap | None) -> bool | None:
    """Whether a burst held the cap; None where it says nothing about that."""
    if measurement is None:
        return None
    if measurement.status not in (Status.OK, Status.OVER_CAP):
        return None
    if cap is None:
        return True if measurement.ok else None
    power = measurement.power(cap.statistic)
    within = None if power is None else power.value <= cap.watts
    if measurement.status is Status.OVER_CAP and within:  # a lower bound below another cap says nothing
        return None
    return within


def trial_json(trial: Trial, cap: Cap | None) -> dict[str, Any]:
    """A trial as the documents show it."""
    measurement = trial.measurement
    return {
        "index": trial.index,
        "setting": dict(trial.setting),
        "state": trial.state.value,
        "role": trial.role.value,
        "attempts": trial.attempts,
        "status": trial.status.value if trial.status else None,
        "reason": measurement.reason if measurement else None,
        "feasible": is_feasible(measurement, cap),
        **{name: getattr(measurement, name) if measurement else None for name in _METRICS},
    }


def mean_measurement(measurements: Sequence[Measurement]) -> dict[str, float | None]:
    """The mean of every number over bursts at one setting; None where no burst has it."""
    means: dict[str, float | None] = {}
    for field in fields(Measurement):
        values = [getattr(m, field.name) for m in measurements]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        means[field.name] = sum(numbers) / len(numbers) if numbers else None
    return means


def evidence_json(evidence: Evidence, trials: Sequence[Trial], problem: Problem) -> dict[str, Any]:
    """All bursts at one setting as one entry with a trial's keys: measured means, never model values."""
    means: Mapping[str, float | None] = mean_measurement(evidence.measurements)
    key = problem.space.key(evidence.setting)
    first = next(t for t in trials if t.valid is not None and problem.space.key(t.setting) == key)
    return {
        "index": first.index,
        "setting": dict(evidence.setting),
        "state": first.state.value,
        "role": first.role.value,
        "status": Status.OK.value,
        "reason": None,
        "feasible": evidence.within(problem.cap),
        **{name: means[name] for name in _METRICS},
        "bursts": len(evidence.measurements),
    }
