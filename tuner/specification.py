"""What a study is: the specification that must match for it to be resumed, and the name made from it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from devices.device import BurstPlan, DeviceInfo, WorkloadSpec
from devices.errors import SpecificationChangedError
from devices.profile import Profile, profile_text
from tuner.problem import Problem
from tuner.units import number
from tuner.workload_files import file_digests

Specification = Mapping[str, Any]
"""JSON values only; compared as a whole. Budget and outputs are no part of it: they may change between runs."""


def specify(
    info: DeviceInfo, workload: WorkloadSpec, problem: Problem, strategy: str, plan: BurstPlan
) -> dict[str, Any]:
    """The specification of a study. Its part `about` only describes: it may change between runs."""
    cap = problem.cap
    files = file_digests(workload.spec) if info.source != "replayed" else {}
    return {
        "about": {
            "model": info.model,
            "origin": dict(info.origin),
            "default_setting": dict(info.default_setting) if info.default_setting else None,
        },
        "device": info.name,
        "source": info.source,
        "fingerprint": info.fingerprint,
        "throughput_unit": info.throughput_unit,
        "held_fixed": dict(info.held_fixed),
        "space": {knob.name: list(knob.values) for knob in problem.space.knobs},
        "workload": {**workload.to_json(), **({"files_sha256": files} if files else {})},
        "goal": problem.goal.name,
        "cap": {"watts": cap.watts, "statistic": cap.statistic} if cap else None,
        "strategy": strategy,
        "seed": problem.seed,
        **({"prior": [_digest(record) for record in problem.prior]} if problem.prior else {}),
        "burst": {
            "min_s": plan.min_s,
            "max_s": plan.max_s,
            "tolerance": plan.tolerance,
            "accumulation": plan.accumulation,
        },
    }


def _digest(record: Profile) -> str:
    return hashlib.sha256(profile_text(record).encode()).hexdigest()[:16]


def study_name(info: DeviceInfo, workload: WorkloadSpec, goal: str, cap_w: float | None) -> str:
    """The default name: device-workload-goal-cap."""
    parts = (info.name, workload.spec, goal, f"{cap_w:g}W" if cap_w else "nocap")
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-")[:60] or "x" for part in parts)


def differences(stored: Specification, wanted: Specification) -> list[str]:
    """One line for each part that differs: `cap: {...} is now {...}`."""
    lines = []
    for key in sorted({*stored, *wanted}):
        old, new = stored.get(key), wanted.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += [f"{key}.{line}" for line in differences(old, new)]
        else:
            lines.append(f"{key}: {_short(old)} is now {_short(new)}")
    return lines


def require_same(name: str, stored: Specification, wanted: Specification) -> None:
    """Raise `SpecificationChangedError` with the differences, unless the two are equal."""
    lines = differences({**stored, "about": None}, {**wanted, "about": None})
    if lines:
        raise SpecificationChangedError(
            f"the study '{name}' was begun with another specification: " + "; ".join(lines),
            hint="repeat the command as it was, add --fresh to start anew (the old study is kept), or name another "
            "with --study",
            differences=lines,
        )


def _words(value: Any) -> str:
    """A JSON value as people read it: `watts=7, statistic=p95`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_words(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else number(value)


def _short(value: Any, limit: int = 60) -> str:
    text = _words(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
