"""Whether the standard errors of bursts on this machine are true: the same settings measured in studies of their own.

    python -m experiments.repeatability [STUDIES]

Prints, for every setting, how far the studies lie apart and how far they say they may; and which share of the 90 %
intervals holds what the other studies found.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Sequence

import click

from devices.device import BurstPlan, WorkloadSpec
from devices.measurement import Measurement
from devices.remote import AgentDevice
from tuner.report.text import setting_text

WORKLOADS: Sequence[tuple[WorkloadSpec, Sequence[int]]] = (
    (WorkloadSpec("digits-cnn"), (8, 32, 128)),
    (WorkloadSpec("char-transformer", {"layers": 2, "embedding": 128}), (4, 16)),
)
Z_90 = 1.645  # half-width of a 90 % interval, in standard errors


def measure(studies: int) -> dict[tuple[str, str], list[Measurement]]:
    """A burst at every setting in every study; each study has an agent, a trainer and an order of its own."""
    found: dict[tuple[str, str], list[Measurement]] = {}
    for seed in range(studies):
        for workload, batches in WORKLOADS:
            with AgentDevice("cpu", workload=workload) as device:
                plan = BurstPlan.for_device(device.describe())
                for batch in random.Random(seed).sample(batches, len(batches)):
                    setting = {"batch_size": batch}
                    key = (workload.spec, setting_text(setting))
                    found.setdefault(key, []).append(device.measure(setting, workload, plan))
        click.echo(f"study {seed + 1} of {studies} done", err=True)
    return found


def covered(measurements: Sequence[Measurement]) -> list[bool]:
    """Whether each 90 % interval of the difference to the mean of the others holds 0."""
    values = [m.throughput or 0.0 for m in measurements]
    sems = [m.throughput_sem or 0.0 for m in measurements]
    answers = []
    for i, (value, sem) in enumerate(zip(values, sems, strict=True)):
        others = values[:i] + values[i + 1 :]
        variance = sem**2 + sum(s**2 for j, s in enumerate(sems) if j != i) / len(others) ** 2
        answers.append(abs(value - statistics.fmean(others)) <= Z_90 * math.sqrt(variance))
    return answers


def main(studies: int) -> None:
    """Measure and print the table."""
    everything: list[bool] = []
    click.echo(f"{'workload':18}{'setting':12}{'samples/s':>10}{'spread':>9}{'says':>9}{'90 % hold':>11}")
    for (workload, setting), measurements in sorted(measure(studies).items()):
        values = [m.throughput or 0.0 for m in measurements]
        mean = statistics.fmean(values)
        says = statistics.fmean(m.throughput_sem or 0.0 for m in measurements)
        answers = covered(measurements)
        everything += answers
        click.echo(
            f"{workload:18}{setting:12}{mean:10.4g}{statistics.stdev(values) / mean:9.1%}{says / mean:9.1%}"
            f"{sum(answers) / len(answers):11.0%}"
        )
    click.echo(f"all: {sum(everything)} of {len(everything)} intervals, {sum(everything) / len(everything):.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
