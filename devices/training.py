"""What a device is told to train, and what it tells of it: the far end of `Device.inspect` and `Device.train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from devices.measurement import Statistic


@dataclass(frozen=True)
class WorkloadInfo:
    """What a device found when it loaded a workload.

    Attributes:
        batch: The effective batch the workload was made for.
        learning_rate: The learning rate that belongs to it.
        optimizer: The optimizer's name (`SGD`).
        train_samples: Samples of the training data, or None where they were not looked at.
        test_samples: Samples of the test data; 0 without such data, None where they were not looked at.
        batch_norm: Whether the model normalizes over the batch, with statistics of the micro-batch; None where it was
            not looked at.
    """

    batch: int
    learning_rate: float
    optimizer: str
    train_samples: int | None = None
    test_samples: int | None = None
    batch_norm: bool | None = None

    def to_reference(self) -> dict[str, Any]:
        """The `reference` of a frozen config."""
        return {"batch": self.batch, "learning_rate": self.learning_rate, "optimizer": self.optimizer}


@dataclass(frozen=True)
class Recipe:
    """How a training learns, beside its batches and its learning rate; the defaults change nothing.

    Attributes:
        clip_norm: Longest gradient of an optimizer step, by its Euclidean norm; None: any.
        precision: Of the forward passes: `fp32`, `bf16` or `fp16`.
        batch_norm: What becomes of batch normalization: `plain`, `frozen` (running statistics) or `group` (replaced by
            group normalization).
        decay: Of the learning rate after the warm-up: `constant`, or `linear` or `cosine` down to 0 at the last step.
    """

    clip_norm: float | None = None
    precision: str = "fp32"
    batch_norm: str = "plain"
    decay: str = "constant"


@dataclass(frozen=True)
class TrainingPlan:
    """A full training, down to the last number: the device decides nothing.

    Attributes:
        setting: The setting to hold throughout; its `batch_size` is the micro-batch.
        effective_batch: Samples of an optimizer step, gathered in micro-batches; a smaller last one meets it exactly.
        learning_rate: Of the optimizer, once warmed up.
        warm_up_from: Learning rate of the first step; it grows linearly over the warm-up.
        warm_up_steps: Optimizer steps until `learning_rate` is reached; 0: from the first step on.
        steps: Optimizer steps in all. An epoch is every sample once; its last step takes the samples that are left.
        seed: Of the initial weights, the order of the data and whatever draws random numbers.
        checkpoint_dir: Folder of the checkpoints `step-N.pt`; made where it does not exist.
        out_dir: Folder for `model.pt`, or None.
        recipe: How it learns.
        cap_w: The cap in watts that the device holds for the whole training, by its clock; None: no cap.
        statistic: The statistic of power the cap holds on.
        on_drift: `hold`: go on at whatever clock holds the cap; `retune`: end, with a checkpoint, when the setting's
            own clock was not held for ten minutes.
        resume: Go on from the last checkpoint, if there is one; otherwise earlier ones are put aside.
        identity: JSON values that a checkpoint must agree with to be resumed.
    """

    setting: Mapping[str, float]
    effective_batch: int
    learning_rate: float
    warm_up_from: float
    warm_up_steps: int
    steps: int
    seed: int
    checkpoint_dir: str
    out_dir: str | None = None
    recipe: Recipe = Recipe()
    cap_w: float | None = None
    statistic: Statistic = "p95"
    on_drift: str = "hold"
    resume: bool = False
    identity: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values."""
        return {**asdict(self), "setting": dict(self.setting), "identity": dict(self.identity)}


@dataclass(frozen=True)
class TrainingResult:
    """What a training ended with; None where it was not measured.

    Attributes:
        steps: Optimizer steps made in all, those before a resumption included.
        finished: Whether these are all; False: it was aborted, and a checkpoint was written.
        resumed: Whether it went on from a checkpoint.
        final_train_loss: Mean loss of a term (sample, token) over the last epoch, or the part of it that was trained.
        test_accuracy: Share of the test data's terms that are right, 0 to 1.
        test_loss: Mean loss of a term of the test data.
        throughput: Samples a second, of training alone (without tests and checkpoints), in this run.
        duration_s: Seconds trained in all, those before a resumption included.
        energy_j, power_mean_w, power_peak_w: Of the whole training, by the device's meter.
        time_over_cap_s: Seconds in which the cap's statistic, over the last minute, was above the cap.
        unmetered_s: Seconds without a reading of the meter.
        changes: Every change of a clock, or of the cap, on the way: `knob`, `from`, `to`, `reason`, `at_s`.
        drift: How conditions differed from those of the study, where that ended it.
        checkpoint: Path of the last checkpoint.
    """

    steps: int
    finished: bool
    resumed: bool
    final_train_loss: float | None = None
    test_accuracy: float | None = None
    test_loss: float | None = None
    throughput: float | None = None
    duration_s: float | None = None
    energy_j: float | None = None
    power_mean_w: float | None = None
    power_peak_w: float | None = None
    time_over_cap_s: float | None = None
    unmetered_s: float | None = None
    changes: Sequence[Mapping[str, Any]] = ()
    drift: str | None = None
    checkpoint: str | None = None
