"""The frozen config: the chosen setting with its evidence, handed to training."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from devices.agent.workloads import file_of
from devices.device import BATCH_KNOB, WorkloadSpec
from devices.errors import InputError
from tuner.frozen_check import SCHEMA, parse_frozen
from tuner.outcome import Outcome, evidence_json
from tuner.store import now


def freeze(outcome: Outcome, workload: WorkloadSpec, reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """The frozen config of a study's recommended setting.

    Args:
        outcome: A study with a recommended setting.
        workload: What was trained.
        reference: `{batch, learning_rate, optimizer}` the workload was made for, or None where that is not known.

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
        "workload": {**workload.to_json(), "files_sha256": _digests(workload.spec)},
        "goal": outcome.problem.goal.name,
        "cap": {"watts": cap.watts, "statistic": cap.statistic} if cap else None,
        "throughput_unit": outcome.info.throughput_unit,
        "measured": {
            **evidence_json(recommended, outcome.trials, outcome.problem),
            "feasible_probability": outcome.verdict.feasible_probability,
        },
        "baseline": outcome.baseline_json(),
        **_training(recommended.setting.get(BATCH_KNOB), reference),
        "seed": outcome.problem.seed,
        "source": outcome.info.source,
        "study": outcome.study,
        "created_at": now(),
    }


def _training(micro_batch: float | None, reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """Effective batch, accumulation and learning rate. The tuned micro-batch is accumulated up to the reference batch;
    a larger one is its own effective batch. The learning rate follows the effective batch linearly (Goyal et al. 2017).
    """
    if reference is None or micro_batch is None:
        return {"reference": None, "effective_batch": None, "accumulation_steps": None, "learning_rate": None}
    effective = max(int(reference["batch"]), int(micro_batch))
    return {
        "reference": dict(reference),
        "effective_batch": effective,
        "accumulation_steps": -(-effective // int(micro_batch)),
        "learning_rate": reference["learning_rate"] * effective / reference["batch"],
    }


def _digests(spec: str) -> dict[str, str]:
    """The SHA-256 of the file of `FILE.py:FACTORY` by its path as written; empty for any other spec."""
    if file_of(spec) is None:
        return {}
    path = spec.rpartition(":")[0] or spec
    digest = _digest(path)
    return {} if digest is None else {path: digest}


def _digest(path: str) -> str | None:
    """The SHA-256 of a workload's file, or None where it cannot be read."""
    absolute = file_of(path)
    try:
        return hashlib.sha256(Path(absolute or path).read_bytes()).hexdigest()
    except OSError:
        return None


def changed_files(files_sha256: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of a frozen config's `files_sha256` whose files are others now; one that is gone is not among them."""
    now_there = {path: _digest(path) for path in files_sha256}
    return tuple(path for path, digest in now_there.items() if digest not in (None, files_sha256[path].lower()))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("taste-tuner", "torch", "ax-platform", "botorch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def require_writable(path: Path) -> None:
    """Check before an hour of bursts that `path` can be written after it.

    Raises:
        InputError: it is a folder, or its folder does not exist or cannot be written.
    """
    folder = path.absolute().parent
    if path.is_dir():
        raise InputError(f"{path} is a folder", hint="name a file")
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {folder}", hint=f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: no permission in {folder}", hint="name a file in a folder of yours")


def write_json(document: Mapping[str, Any], path: Path) -> None:
    """Write `document` whole or not at all.

    Raises:
        InputError: the file cannot be written there.
    """
    write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write `text` whole or not at all.

    Raises:
        InputError: the file cannot be written there.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}", hint="--out FILE, in a folder you may write"
        ) from error


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
