"""What a training is made of: micro-batch, accumulation, learning rate, steps, decided from a frozen config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from devices.device import BATCH_KNOB, DeviceInfo, Setting, WorkloadSpec
from devices.errors import InputError, UnsupportedError
from devices.measurement import Source
from devices.training import Recipe, TrainingPlan, WorkloadInfo
from tuner.frozen_check import FrozenTraining
from tuner.learning_rate import rule_for, scale
from tuner.training_request import AUTO, TrainRequest

DEFAULT_EPOCHS = 20
WARM_UP_EPOCHS = 5  # Goyal et al. 2017, section 2.2
WARM_UP_SHARE = 0.1  # of all steps, at most: five epochs may be half of a short training
HERE = "cpu"  # the device that every machine has


@dataclass(frozen=True)
class Training:
    """A training with everything decided.

    Attributes:
        workload: What is trained, as the user named it.
        plan: What the device is told.
        micro_batch: Samples of a forward and backward pass.
        accumulation_steps: Passes of an optimizer step, a smaller last one counted.
        epochs: How often every sample is seen.
        lr_scaling: How the learning rate follows the effective batch: one of `tuner.learning_rate.RULES`.
        notes: Sentences for the user on what was decided.
    """

    workload: WorkloadSpec
    plan: TrainingPlan
    micro_batch: int
    accumulation_steps: int
    epochs: float
    lr_scaling: str
    notes: tuple[str, ...]


def cannot_train(request: TrainRequest, config: FrozenTraining, name: str, source: Source) -> InputError:
    """The error for a device that trains nothing here, with the command that does.

    Args:
        request, config: What is to be trained.
        name: The device.
        source: Where its figures come from.
    """
    why = {
        "measured": "it is not here",
        "emulated": "only a model of it is here",
        "replayed": "a recorded profile answers for it",
    }[source]
    accept = request.accept_source or config.source != "measured"
    return UnsupportedError(f"{name} cannot train: {why}", hint=request.command(device=HERE, accept_source=accept))


def refuse_source(request: TrainRequest, config: FrozenTraining, source: Source) -> None:
    """Let figures that were not measured train on a device whose `source` is `measured` on request only.

    Raises:
        InputError: no --accept-source.
    """
    if config.source != "measured" and source == "measured" and not request.accept_source:
        raise InputError(f"the figures of {request.frozen} {origin(config)}", hint=request.command(accept_source=True))


def provenance(config: FrozenTraining, info: DeviceInfo) -> tuple[str, ...]:
    """What the user should know of a setting that was found elsewhere than where it trains."""
    if config.source == info.source and config.device == info.name:
        return ()
    return (f"the figures of the frozen config {origin(config)}; {info.name} may behave otherwise",)


def origin(config: FrozenTraining) -> str:
    """Where the figures of a frozen config come from, as the end of a sentence that begins with them."""
    return {
        "emulated": f"are emulated: a model of {config.device} gave them, nothing was measured",
        "replayed": f"are replayed: they come from a recorded profile of {config.device}",
        "measured": f"were measured on {config.device}",
    }[config.source]


def training_workload(request: TrainRequest, config: FrozenTraining) -> WorkloadSpec:
    """What is trained: the config's workload, on `--data` where that is given."""
    return config.workload if request.data is None else replace(config.workload, data=request.data)


def decide(
    request: TrainRequest, config: FrozenTraining, info: DeviceInfo, found: WorkloadInfo, notes: Sequence[str] = ()
) -> Training:
    """The training that is asked for.

    Args:
        request: The options.
        config: What the frozen config says.
        info: The device that trains.
        found: What it found when it loaded the workload.
        notes: Sentences to come before those of this decision.

    Raises:
        InputError: an effective batch larger than the data, or a length that cannot be told.
    """
    said = list(notes)
    reference = config.reference or found
    effective = request.effective_batch or config.effective_batch or max(reference.batch, config.micro_batch)
    samples = found.train_samples
    if samples is None:
        raise InputError(
            f"{config.workload.spec} has no training data: its train_data() gives None",
            hint="a workload that gives data, or --data PATH where it takes some",
        )
    if effective > samples:
        raise InputError(
            f"the effective batch {effective} is larger than the training data of {config.workload.spec}: "
            f"{samples} samples",
            hint=request.command(effective_batch=samples),
        )
    micro = min(config.micro_batch, effective)
    accumulation = -(-effective // micro)
    said += _batch_notes(config, effective)
    known = {knob.name for knob in info.knobs} | {BATCH_KNOB}
    setting = {name: value for name, value in config.setting.items() if name in known} | {BATCH_KNOB: micro}
    said += [f"{info.name} has no {name}: it is left alone" for name in config.setting if name not in known]
    rule = rule_for(reference.optimizer) if request.lr_scaling == AUTO else request.lr_scaling
    rate, note = follow_rate(config, reference, effective, rule)
    said += [note] if note else []
    if not math.isfinite(rate):
        raise InputError(
            f"the learning rate scaled to an effective batch of {effective} is no finite number",
            hint=f"a smaller learning_rate in {request.frozen}",
        )
    if request.precision != Recipe.precision:
        said.append(f"the study measured {Recipe.precision}: speed and power differ in {request.precision}")
    if config.cap_w is not None and not info.statistics:
        said.append(f"the cap of {config.cap_w:g} W is not held: {info.name} has no power meter")
    per_epoch = -(-samples // effective)
    steps = request.steps or (request.epochs or DEFAULT_EPOCHS) * per_epoch
    warm_up = _warm_up_steps(reference, effective, rate, steps, per_epoch)
    plan = TrainingPlan(
        setting=setting,
        effective_batch=effective,
        learning_rate=rate,
        warm_up_from=reference.learning_rate if warm_up else rate,
        warm_up_steps=warm_up,
        steps=steps,
        seed=config.seed if request.seed is None else request.seed,
        checkpoint_dir=str(request.checkpoint_dir.absolute()),
        out_dir=None if request.out is None else str(request.out.absolute()),
        recipe=Recipe(request.clip_norm, request.precision, request.batch_norm, request.decay),
        resume=request.resume,
    )
    workload = training_workload(request, config)
    return Training(
        workload=workload,
        plan=replace(plan, identity=_identity(workload, info, setting)),
        micro_batch=micro,
        accumulation_steps=accumulation,
        epochs=steps / per_epoch,
        lr_scaling=rule,
        notes=tuple(said),
    )


def _batch_notes(config: FrozenTraining, effective: int) -> list[str]:
    micro = config.micro_batch
    if effective < micro:
        return [f"the micro-batch is lowered from {micro} to the effective batch {effective}"]
    notes = []
    if effective % micro:
        notes.append(
            f"the effective batch {effective} is no multiple of the micro-batch {micro}: {_last_ones(effective, micro)}"
        )
    return notes


def _last_ones(effective: int, micro: int) -> str:
    """How a window that is no multiple of the micro-batch ends."""
    last = last_micro_batch(effective, micro)
    if last == effective % micro:
        return f"the last micro-batch of each step has {last}"
    return f"the last micro-batches of each step have {micro - 1} and {last}"


def last_micro_batch(effective: int, micro: int) -> int:
    """Samples of the last micro-batch of a window; a single one left over is lent another (the trainer's `split`)."""
    left = effective % micro or micro
    return 2 if left == 1 and effective > micro > 2 else left


def follow_rate(config: FrozenTraining, reference: WorkloadInfo, effective: int, rule: str) -> tuple[float, str | None]:
    """The learning rate of an effective batch by a rule, and a sentence where the file's own is another.

    A rate written by hand belongs to the file's effective batch and scales from there.
    """
    scaled = scale(reference.learning_rate, effective, reference.batch, rule)
    written = config.learning_rate
    if written is None:
        return scaled, None
    base = config.effective_batch or effective
    usual = scale(reference.learning_rate, base, reference.batch, rule_for(reference.optimizer))
    if math.isclose(written, usual, rel_tol=1e-9):  # nobody changed it
        return scaled, None
    if base == effective:
        return written, f"learning rate {written:g} stands in the file; {rule} scaling would give {scaled:g}"
    rate = scale(written, effective, base, rule)
    return rate, (
        f"learning rate {written:g} stands in the file for an effective batch of {base}; "
        f"by {rule} scaling it is {rate:g} for {effective}"
    )


def _warm_up_steps(reference: WorkloadInfo, effective: int, rate: float, steps: int, per_epoch: int) -> int:
    """Optimizer steps over which the learning rate grows from the reference one; 0 where there is nothing to grow."""
    if effective <= reference.batch or rate <= reference.learning_rate:
        return 0
    return min(WARM_UP_EPOCHS * per_epoch, int(steps * WARM_UP_SHARE))


def _identity(workload: WorkloadSpec, info: DeviceInfo, setting: Setting) -> dict[str, Any]:
    """What a checkpoint must agree with besides the numbers of its plan, so that `--resume` ends where the undisturbed
    training would have ended."""
    knobs = {name: value for name, value in setting.items() if name != BATCH_KNOB}
    return {"device": info.name, "workload": workload.to_json(), "setting": knobs}
