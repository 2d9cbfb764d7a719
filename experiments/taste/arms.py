"""The trainings that are compared, as plans that `tune train` makes of a frozen config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devices.device import BATCH_KNOB, DeviceInfo
from devices.training import WorkloadInfo
from tuner.frozen_check import frozen_training
from tuner.training import Training, decide
from tuner.training_request import TrainRequest

REFERENCE, ACCUMULATED, ALONE, QUARTERS = "reference", "tuned, accumulated", "tuned alone", "quarters, accumulated"
ARMS = (REFERENCE, ACCUMULATED, ALONE, QUARTERS)
PASSES = 4  # of `quarters, accumulated`


@dataclass(frozen=True)
class Lesson:
    """What the trainings of a subject are made of.

    Attributes:
        frozen: The frozen config of its study.
        info: The device.
        found: What the device found when it loaded the workload.
    """

    frozen: Mapping[str, Any]
    info: DeviceInfo
    found: WorkloadInfo

    def training(self, arm: str, **request: Any) -> Training:
        """The training of an arm.

        - `reference`: the batch and learning rate the workload was made for, in one pass.
        - `tuned, accumulated`: what `tune train` makes of the frozen config: micro-batches of the tuned size gathered
          up to the reference batch; a larger one is its own effective batch, with scaled learning rate and warm-up.
        - `tuned alone`: the tuned size as the batch, in one pass, with the learning rate as it is.
        - `quarters, accumulated`: the reference in four passes, whatever was tuned: what accumulation alone does, also
          where the tuned batch is the reference or larger, and nothing is accumulated.

        Args:
            arm: One of `ARMS`.
            request: Options of `tune train` (`tuner.training_request.TrainRequest`): `epochs` or `steps`, `seed`, ...
        """
        config = frozen_training(self.frozen, Path("frozen.json"))
        rule = TrainRequest.lr_scaling
        if arm in (REFERENCE, QUARTERS):
            batch, rate = self.found.batch, self.found.learning_rate
            micro = batch if arm == REFERENCE else max(batch // PASSES, 1)
            config = replace(config, setting={BATCH_KNOB: micro}, effective_batch=batch, learning_rate=rate)
        elif arm == ALONE:
            config, rule = replace(config, effective_batch=config.micro_batch, learning_rate=None), "none"
        return decide(TrainRequest(config.path, lr_scaling=rule, **request), config, self.info, self.found)


def in_turn(seed: int) -> tuple[str, ...]:
    """All arms, another one first with every seed: a machine that slows down must not look like an arm."""
    first = seed % len(ARMS)
    return ARMS[first:] + ARMS[:first]


def described(training: Training) -> dict[str, Any]:
    """What distinguishes a training in the tables."""
    return {
        "micro_batch": training.micro_batch,
        "effective_batch": training.plan.effective_batch,
        "passes": training.accumulation_steps,
        "learning_rate": training.plan.learning_rate,
        "warm_up_steps": training.plan.warm_up_steps,
        "steps": training.plan.steps,
    }


def key_of(training: Training) -> dict[str, Any]:
    """What decides the result of a training: the key of its result in the ledger."""
    plan = training.plan.to_json()
    del plan["checkpoint_dir"]
    return {"workload": training.workload.to_json(), "plan": plan}
