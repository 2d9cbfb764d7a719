"""A board of five knobs and 175 392 settings, whose physics is known everywhere at once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import numpy as np

from devices.device import BATCH_KNOB, BurstPlan, Device, DeviceInfo, EventSink, Knob, Setting, WorkloadSpec
from devices.measurement import Measurement, Status
from tuner.models.forms import Array


def _clocks(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, count).round(2).tolist())


KNOBS = (
    Knob("gpu_freq_mhz", _clocks(306, 1020, 14)),
    Knob(BATCH_KNOB, tuple(2**i for i in range(9))),
    Knob("cpu_freq_mhz", _clocks(400, 2200, 29)),
    Knob("cpu_cores", tuple(range(1, 13))),
    Knob("emc_freq_mhz", _clocks(800, 3200, 4)),
)


def physics(values: Mapping[str, Array | float]) -> tuple[Array, Array]:
    """Samples/s and watts, of the shape of the values."""
    gpu, batch, cpu = values["gpu_freq_mhz"] / 1020, values[BATCH_KNOB], values["cpu_freq_mhz"] / 2200
    cores, emc = values["cpu_cores"], values["emc_freq_mhz"] / 3200
    host = 0.01 / cpu + 0.004 * batch / (cpu * cores)
    accelerator = 0.01 / gpu + batch * (0.004 / gpu + 0.002 + 0.003 / emc)
    overlapped = np.hypot(host, accelerator)
    time = overlapped * np.exp(0.02 * np.sin(5 * gpu) * np.sin(2 * np.log(batch)))  # what no form says
    power = 3 + accelerator / overlapped * (2 * gpu + 3 * gpu**3) + 1.2 * emc
    return batch / time, power + 0.35 * cores * cpu**2 * (0.3 + 0.7 * host / overlapped)


def optimum(cap_w: float) -> float:
    """The highest throughput that holds the cap, samples/s, by looking at every setting."""
    grid = np.meshgrid(*(np.array(knob.values, float) for knob in KNOBS), indexing="ij")
    throughput, power = physics({knob.name: values for knob, values in zip(KNOBS, grid, strict=True)})
    return float(throughput[power <= cap_w].max())


class LargeDevice(Device):
    """Answers by `physics` with 1 % noise; batch sizes from `oom_from` on run out of memory."""

    def __init__(self, oom_from: float = math.inf) -> None:
        self._oom_from = oom_from

    def describe(self) -> DeviceInfo:
        return DeviceInfo("large", "emulated", KNOBS, statistics=("mean",))

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        if setting[BATCH_KNOB] >= self._oom_from:
            return Measurement(Status.OOM, "emulated", reason="memory is full", cost_s=5.0)
        key = f"{sorted(setting.items())} {plan.replicate}".encode()
        draw = np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest()[:8], "big")).standard_normal(2)
        throughput, power_w = (float(v) for v in physics(setting) * np.exp(draw * (0.01, 0.005)))
        return Measurement(
            Status.OK,
            "emulated",
            throughput=throughput,
            throughput_sem=0.01 * throughput,
            power_mean_w=power_w,
            power_mean_sem_w=0.005 * power_w,
            energy_per_sample_j=power_w / throughput,
            duration_s=10.0,
            cost_s=12.0,
            cost_j=12 * power_w,
        )
