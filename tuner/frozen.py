"""The frozen config: the chosen setting with its evidence, handed to training."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from devices.device import BATCH_KNOB, WorkloadSpec
from devices.errors import InputError
from tuner.frozen_check import SCHEMA, parse_frozen
from tuner.learning_rate import rule_for, scale
from tuner.outcome import Outcome, evidence_json
from tuner.store import now
from tuner.workload_files import file_digests


def freeze(
    outcome: Outcome,
    workload: WorkloadSpec,
    reference: Mapping[str, Any] | None,
    train_samples: int | None = None,
) -> dict[str, Any]:
    """The frozen config of a study's recommended setting.

    Args:
        outcome: A study with a recommended setting.
        workload: What was trained.
        reference: `{batch, learning_rate, optimizer}` the workload was made for, or None where that is not known.
        train_samples: Samples of the training data, where that is known: the effective batch is not larger.

    Raises:
        ValueError: nothing is recommended.
    """
    recommended = outcome.verdict.recommended
    if recommended is None:
        raise ValueError("nothing is recommended")
    cap = outcome.problem.cap
    return {
        "schema": SCHEMA,
        "device": outcome.info.name,
        "setting": dict(recommended.setting),
        "context": {**outcome.info.held_fixed, "versions": _versions()},
        "workload": {**workload.to_json(), "files_sha256": file_digests(workload.spec)},
        "goal": outcome.problem.goal.name,
        "cap": {"watts": cap.watts, "statistic": cap.statistic} if cap else None,
        "throughput_unit": outcome.info.throughput_unit,
        "measured": {
            **evidence_json(recommended, outcome.trials, outcome.problem),
            "feasible_probability": outcome.verdict.feasible_probability,
        },
        "baseline": outcome.baseline_json(),
        **_training(recommended.setting.get(BATCH_KNOB), reference, train_samples),
        "seed": outcome.problem.seed,
        "source": outcome.info.source,
        "study": outcome.study,
        "created_at": now(),
    }


def _training(
    micro_batch: float | None, reference: Mapping[str, Any] | None, train_samples: int | None
) -> dict[str, Any]:
    """Effective batch, accumulation and learning rate. The tuned micro-batch is accumulated up to the reference batch;
    a larger one is its own effective batch. The learning rate follows it by the optimizer's rule.
    """
    if reference is None or micro_batch is None:
        names = ("reference", "effective_batch", "accumulation_steps", "learning_rate", "lr_scaling")
        return dict.fromkeys(names)
    effective = max(int(reference["batch"]), int(micro_batch))
    if train_samples is not None:
        effective = min(effective, max(train_samples, int(micro_batch)))
    rule = rule_for(reference["optimizer"])
    return {
        "reference": dict(reference),
        "effective_batch": effective,
        "accumulation_steps": -(-effective // int(micro_batch)),
        "learning_rate": scale(reference["learning_rate"], effective, int(reference["batch"]), rule),
        "lr_scaling": rule,
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("taste-tuner", "torch", "ax-platform", "botorch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def read_frozen(path: Path) -> dict[str, Any]:
    """A frozen config from its file, every field that training uses checked.

    Raises:
        InputError: no such file, no JSON, no frozen config, one of another schema, or a field that cannot be.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors leave a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"cannot read {path}: {reason}", hint="tune run writes one") from error
    return parse_frozen(text, path)
