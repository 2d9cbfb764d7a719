"""The document of `tune train`, and the folders and the file it is written to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from devices.device import DeviceInfo, knob_value
from devices.errors import InputError, StoreError
from devices.training import TrainingResult
from tuner.files import write_json
from tuner.frozen_check import FrozenTraining
from tuner.training import Training
from tuner.training_request import TrainRequest


def training_document(
    request: TrainRequest, config: FrozenTraining, info: DeviceInfo, training: Training, result: TrainingResult
) -> dict[str, Any]:
    """The document of `--json`. Figures that were not measured, or are no numbers, are null."""
    plan = training.plan
    found = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(result).items()
    }
    figures = ("test_accuracy", "test_loss", "final_train_loss", "throughput", "energy_j", "power_mean_w")
    return {
        "device": info.name,
        "source": info.source,
        "frozen": str(request.frozen),
        "frozen_source": config.source,
        "workload": training.workload.to_json(),
        "setting": dict(plan.setting),
        **{name: found[name] for name in figures},
        "time_over_cap_s": found["time_over_cap_s"],
        "duration_s": found["duration_s"],
        "micro_batch": training.micro_batch,
        "effective_batch": plan.effective_batch,
        "accumulation_steps": training.accumulation_steps,
        "learning_rate": plan.learning_rate,
        "lr_scaling": training.lr_scaling,
        "recipe": asdict(plan.recipe),
        "warm_up_steps": plan.warm_up_steps,
        "steps": result.steps,
        "steps_planned": plan.steps,
        "epochs": knob_value(training.epochs),
        "seed": plan.seed,
        "resumed": result.resumed,
        "finished": result.finished,
        "checkpoint": result.checkpoint,
        "out": None if request.out is None else str(request.out),
        "notes": list(training.notes),
        "go_on": None,
    }


def make_folder(folder: Path, option: str) -> None:
    """Make the folder that `option` names, where it is not there.

    Raises:
        InputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{option} {folder} cannot be made: {error.strerror or error}", hint=f"{option} DIR"
        ) from error


def write_result(request: TrainRequest, document: Mapping[str, Any], path: Path) -> None:
    """Write the document of a finished training.

    Raises:
        StoreError: it could not be written; the training is not lost.
    """
    try:
        write_json(document, path)
    except InputError as error:
        raise StoreError(
            f"the training is finished, but its result could not be written: {error.message}",
            hint=f"its checkpoints are whole: {request.command(resume=True)}",
        ) from error
