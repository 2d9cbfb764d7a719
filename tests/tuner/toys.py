"""Devices made up for tests of the loop."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from devices.device import (
    BATCH_KNOB,
    BurstPlan,
    Device,
    DeviceInfo,
    EventSink,
    Knob,
    Setting,
    WorkloadSpec,
)
from devices.errors import InputError
from devices.measurement import Measurement, Status
from devices.training import TrainingPlan, TrainingResult, WorkloadInfo
from tuner.testing import toy_measurement

Scripted = Callable[[Setting, BurstPlan], Measurement | None]


class ToyDevice(Device):
    """Answers from the contract suite's toy physics, with noise where asked for.

    Args:
        clocks, batches: How many values each knob has.
        noise: Relative standard deviation of throughput and power.
        meter: Whether it has one.
        oom_from: Batch sizes from here on run out of memory.
        script: Called before each burst; what it returns is the answer, unless that is None.
    """

    def __init__(
        self,
        *,
        clocks: int = 4,
        batches: int = 5,
        noise: float = 0.0,
        meter: bool = True,
        oom_from: float = math.inf,
        script: Scripted | None = None,
        default: Mapping[str, float] | None = None,
    ) -> None:
        self.bursts: list[tuple[Setting, int]] = []
        self.closed = 0
        self.aborted = 0
        self._noise = noise
        self._oom_from = oom_from
        self._script = script
        self._info = DeviceInfo(
            name="toy",
            model="Toy board",
            source="emulated",
            knobs=(
                Knob("gpu_freq_mhz", tuple(300 + 100 * i for i in range(clocks))),
                Knob(BATCH_KNOB, tuple(2**i for i in range(batches))),
            ),
            statistics=("mean",) if meter else (),
            default_setting=default,
        )

    def describe(self) -> DeviceInfo:
        return self._info

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        for knob in self._info.knobs:
            if setting.get(knob.name) not in knob.values:
                raise InputError(f"{knob.name} has no such value", hint="one of its values")
        self.bursts.append((dict(setting), plan.replicate))
        scripted = self._script(setting, plan) if self._script else None
        if scripted is not None:
            return scripted
        found = toy_measurement(setting, sem=self._noise, oom_from=self._oom_from)
        if not found.ok or not self._noise:
            return found if self._info.statistics else _without_power(found)
        key = f"{sorted(setting.items())} {plan.replicate}".encode()
        draw = np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest()[:8], "big")).standard_normal(2)
        assert found.throughput is not None
        assert found.power_mean_w is not None
        found = replace(
            found,
            throughput=found.throughput * math.exp(self._noise * draw[0]),
            power_mean_w=found.power_mean_w * math.exp(self._noise * draw[1]),
        )
        return found if self._info.statistics else _without_power(found)

    def abort(self) -> None:
        self.aborted += 1

    def close(self) -> None:
        self.closed += 1


def _without_power(found: Measurement) -> Measurement:
    return replace(found, power_mean_w=None, power_mean_sem_w=None, energy_per_sample_j=None, cost_j=0.0)


def failed(status: Status, reason: str = "scripted") -> Measurement:
    """A burst that failed."""
    return Measurement(status, "emulated", reason=reason, cost_s=1.0)


class TrainableToy(ToyDevice):
    """Trains nothing, but says so as a device that trains: one event and one checkpoint a step.

    Args:
        info: What it finds when it loads a workload.
        knobs: Its knobs.
        on_step: Called before each step with its number: it may raise, send signals, call `abort`.
        result: Fields of the result, over those made up here.
    """

    def __init__(
        self,
        info: WorkloadInfo | None = None,
        *,
        knobs: tuple[Knob, ...] = (Knob(BATCH_KNOB, (16, 32, 64)),),
        on_step: Callable[[int], None] | None = None,
        **result: object,
    ) -> None:
        super().__init__()
        self._info = DeviceInfo(name="cpu", model="Toy machine", source="measured", knobs=knobs)
        self.info = info or WorkloadInfo(64, 0.1, "SGD", train_samples=1000, test_samples=200)
        self.on_step = on_step
        self.result = result
        self.inspected: list[WorkloadSpec] = []
        self.trained: list[tuple[WorkloadSpec, TrainingPlan]] = []

    def inspect(self, workload: WorkloadSpec) -> WorkloadInfo | None:
        self.inspected.append(workload)
        return self.info

    def train(self, workload: WorkloadSpec, plan: TrainingPlan, on_event: EventSink | None = None) -> TrainingResult:
        assert Path(plan.checkpoint_dir).is_absolute()
        self.trained.append((workload, plan))
        made, before, checkpoint = 0, self.aborted, None
        tell = on_event or (lambda event: None)
        tell({"phase": "note", "text": "a toy's note"})
        while made < plan.steps and self.aborted == before:
            if self.on_step is not None:
                self.on_step(made + 1)
            made += 1
            checkpoint = f"{plan.checkpoint_dir}/step-{made}.pt"
            figures = {"loss": 1 / made, "learning_rate": plan.learning_rate, "throughput": 500.0, "elapsed_s": made}
            tell({"phase": "train", "step": made, "steps": plan.steps, "epoch": 1 + (made - 1) // 16, **figures})
            tell({"phase": "checkpoint", "path": checkpoint})
        finished = made == plan.steps
        if finished:
            tell({"phase": "test"})
        found = TrainingResult(
            steps=made,
            finished=finished,
            resumed=plan.resume,
            final_train_loss=1 / made,
            test_accuracy=0.975 if finished else None,
            test_loss=0.08 if finished else None,
            throughput=500.0,
            duration_s=2.0,
            checkpoint=checkpoint,
        )
        return replace(found, **self.result)  # type: ignore[arg-type]
