"""Supervised training in four arms, by the device's own trainer."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any

from devices.device import Device
from experiments.taste.arms import Lesson, described, in_turn, key_of
from experiments.taste.curves import Tell
from experiments.taste.ledger import Ledger
from experiments.taste.subjects import Subject
from tuner.training import Training

DECAY = "cosine"  # of the learning rate, in all arms: what is compared is where they end, not how they jitter


def train_arms(subject: Subject, device: Device, lesson: Lesson, ledger: Ledger, tell: Tell) -> list[dict[str, Any]]:
    """Train every arm with every seed, which decides initial weights and the order of the data.

    Every arm sees every sample as often. An epoch's order is the same in all arms; its steps are cut from it in the
    arm's effective batch.

    Returns:
        A row a training: `arm`, `seed`, what `described` says, `accuracy` (0 to 1), `seconds` trained (without tests
        and checkpoints).

    Raises:
        DeviceError: a training failed.
    """
    rows = []
    for seed in range(subject.seeds):
        for arm in in_turn(seed):
            training = lesson.training(arm, epochs=subject.epochs, seed=seed, decay=DECAY)
            row = {"arm": arm, "seed": seed, **described(training), **_recall(device, training, ledger)}
            tell(f"  seed {seed}, {arm}: {row['accuracy']:.2%} in {row['seconds']:.1f} s")
            rows.append(row)
    return rows


def _recall(device: Device, training: Training, ledger: Ledger) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            result = device.train(training.workload, replace(training.plan, checkpoint_dir=folder))
        return {"accuracy": result.test_accuracy, "loss": result.test_loss, "seconds": result.duration_s}

    return ledger.recall({"supervised": key_of(training)}, make)
