"""Power, energy and a study under a cap on this machine's NVIDIA GPU, in under five minutes; none of its settings is
changed.

    python -m experiments.gpu_check [--cap 200W] [--workload resnet18] [-o PROFILE.csv]

Compares NVML's energy counter with the trapezoid over its power readings, idle and under load, then searches the batch
size under a cap and writes every burst into a profile. Without a GPU it says why and ends well. What it starts has no
right to change a GPU: CAP_SYS_ADMIN is taken from it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import click

from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.agent.meter import MeterFault
from devices.agent.nvidia.gpu import MEMORY_CLOCK, Gpu
from devices.agent.nvidia.library import Nvml, NvmlError
from devices.agent.nvidia.meter import NvmlMeter
from devices.agent.nvidia.select import select_gpu
from devices.agent.power import figures
from devices.agent.sampler import Sampler
from devices.device import BATCH_KNOB, BurstPlan, Device
from devices.errors import TunerError
from devices.profile import write_profile
from tuner.cli.options import Power
from tuner.outcome import Outcome
from tuner.record import profile_of
from tuner.report.text import setting_text
from tuner.study import Progress, Study

WINDOW_S = 10.0  # of each comparison
SETTLE_S = 3.0
DEADLINE_S = 280.0  # of the whole; the burst that runs then is the last
SHARE = 0.4  # where the cap lies between idle power and that of the load, unless it is given
BURSTS = 12
PLAN = BurstPlan(min_s=5.0, max_s=10.0)
LARGEST_DIFFERENCE = 0.05  # between counter and trapezoid: the counter's steps alone make 1 % of the window

_SYS_ADMIN = 21  # number of CAP_SYS_ADMIN
_PR_CAPBSET_DROP = 24
_SIZE = 8192  # of the matrices of the load
_START_UP_S = 120.0


@dataclass(frozen=True)
class Agreement:
    """What two ways to energy say of one window.

    Attributes:
        counter_j: Difference of the energy counter.
        trapezoid_j: Integral of the power readings.
        mean_w: Mean power, by the readings.
        samples: Number of readings.
    """

    counter_j: float
    trapezoid_j: float
    mean_w: float
    samples: int

    @property
    def difference(self) -> float:
        """Of the trapezoid from the counter, relative."""
        return self.trapezoid_j / self.counter_j - 1

    def text(self, what: str) -> str:
        """A line for the user."""
        return (
            f"{what}: {self.mean_w:.1f} W; energy {self.counter_j:.0f} J by the counter, {self.trapezoid_j:.0f} J by "
            f"{self.samples} readings of power: {self.difference:+.1%}"
        )


def compare_energy(meter: NvmlMeter, clock: Clock, window_s: float = WINDOW_S) -> Agreement:
    """Watch power and energy for that long.

    Raises:
        MeterFault: one of them cannot be read, or stands still.
    """
    if meter.energy is None:
        raise MeterFault("the GPU has no energy counter: Volta and newer have")
    sampler = Sampler(meter, clock)
    sampler.start()
    try:
        begin = (clock.monotonic(), meter.energy.read_j())
        clock.sleep(window_s)
        end = (clock.monotonic(), meter.energy.read_j())
    finally:
        sampler.stop()
    if sampler.fault is not None:
        raise MeterFault(sampler.fault)
    samples = sampler.between(begin[0], end[0])
    found = figures(samples, begin[0], end[0], ("mean",))
    if not found:
        raise MeterFault(f"only {len(samples)} readings of power in {window_s:g} s")
    return Agreement(meter.energy.used_j(begin, end), found["energy_j"], found["power_mean_w"], len(samples))


def compare_under_load(meter: NvmlMeter, clock: Clock) -> Agreement:
    """The same while another process multiplies matrices: its CUDA must be gone before the study.

    Raises:
        MeterFault: as above, or the load cannot be run.
    """
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    process = context.Process(target=_load, args=(ready, stop), daemon=True)
    process.start()
    try:
        began = time.monotonic()
        while not ready.wait(0.2):
            if not process.is_alive() or time.monotonic() - began > _START_UP_S:
                raise MeterFault("the load does not run: torch sees no GPU, or ended with an error")
        clock.sleep(SETTLE_S)
        return compare_energy(meter, clock)
    finally:
        stop.set()
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()


def _load(ready: Event, stop: Event) -> None:
    import torch

    if not torch.cuda.is_available():
        sys.exit(1)
    matrix = torch.randn(_SIZE, _SIZE, device="cuda", dtype=torch.float16)
    while not stop.is_set():
        for _ in range(20):
            torch.mm(matrix, matrix)
        torch.cuda.synchronize()
        ready.set()


def run_study(device: Device | str, cap_w: float, workload: str, left_s: float) -> tuple[Study, Outcome]:
    """Search the batch size under a cap for that many seconds at most, and the burst that runs then.

    Raises:
        TunerError: the device cannot be used, or has another knob that it would search.
    """
    with Study(device, workload, cap_w=cap_w, bursts=BURSTS, plan=PLAN) as study:
        names = [knob.name for knob in study.info.knobs]
        if names != [BATCH_KNOB]:
            raise TunerError(f"only the batch size may be searched here, not {', '.join(names)}")
        click.echo(f"study under {cap_w:.0f} W {study.plan.statistic} of {study.info.meter}, {workload}")
        timer = threading.Timer(max(left_s, 0.0), study.request_stop)
        timer.daemon = True
        timer.start()
        try:
            return study, study.run(_tell)
        finally:
            timer.cancel()


def _tell(progress: Progress) -> None:
    measurement = progress.trial.measurement
    if measurement is None:
        return
    text = f"  {progress.bursts:2} {setting_text(progress.trial.setting):16} {measurement.status}"
    if measurement.throughput is not None and measurement.power_p95_w is not None:
        text += f"  {measurement.throughput:.0f} samples/s, {measurement.power_p95_w:.1f} W p95"
    click.echo(text + (f"  ({measurement.reason})" if measurement.reason else ""))


def give_up_rights() -> None:
    """No program started from here on may change the GPU. Who is not root had no such right."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_CAPBSET_DROP, _SYS_ADMIN, 0, 0, 0)


def settings_of(gpu: Gpu) -> Mapping[str, Any]:
    """What can be set on a GPU and be read: it must be the same at the end."""
    return {
        "power limit, mW": gpu.power_limit_mw(),
        "highest clock, MHz": gpu.max_clock_mhz(),
        "highest memory clock, MHz": gpu.max_clock_mhz(MEMORY_CLOCK),
        "persistence": gpu.persistence(),
        "MIG": gpu.is_partitioned(),
    }


def find_gpu() -> Gpu | str:
    """The GPU, or why there is none to be checked."""
    try:
        gpu, doubt = select_gpu(Nvml.open(), os.environ)
    except NvmlError as error:
        return f"{error.reason}; {error.mend}"
    except AgentError as error:
        return error.message
    if gpu.is_stub:
        return f"{gpu.name} is a Jetson's GPU"
    if doubt is not None:
        click.echo(f"{doubt.what}; {doubt.mend}")
    return gpu


@click.command()
@click.option("--cap", "cap_w", type=Power(), metavar="200W", help="Of the study; 40 % of the way from idle to load.")
@click.option("--workload", default="resnet18", show_default=True, metavar="W", help="What is trained.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("gpu.csv"), show_default=True, metavar="FILE"
)
def main(cap_w: float | None, workload: str, out: Path) -> None:
    """Check NVML and a study under a cap on this machine's NVIDIA GPU. No setting of it is changed."""
    began = time.monotonic()
    gpu = find_gpu()
    if isinstance(gpu, str):
        click.echo(f"skipped, there is no NVIDIA GPU to check: {gpu}")
        return
    give_up_rights()
    before = settings_of(gpu)
    click.echo(f"{gpu.name}, driver {gpu.driver()}: " + ", ".join(f"{name} {value}" for name, value in before.items()))
    try:
        meter = NvmlMeter(gpu)
        click.echo(f"{meter.name}, settles in {meter.lag_s:g} s" + (f"; {meter.note}" if meter.note else ""))
        idle = compare_energy(meter, Clock())
        click.echo(idle.text("idle"))
        load = compare_under_load(meter, Clock())
        click.echo(load.text("under load"))
        cap_w = cap_w or idle.mean_w + SHARE * (load.mean_w - idle.mean_w)
        study, outcome = run_study("nvidia", cap_w, workload, DEADLINE_S - (time.monotonic() - began))
        write_profile(profile_of(outcome, study.workload), out)
    except (MeterFault, TunerError) as error:
        hint = getattr(error, "hint", None)
        click.echo(f"failed: {error}" + (f" ({hint})" if hint else ""), err=True)
        sys.exit(3)
    best = outcome.verdict.recommended
    found = "nothing holds it" if best is None else f"{setting_text(best.setting)}, {best.goal.value:.0f} samples/s"
    click.echo(f"best under {cap_w:.0f} W: {found}; every burst: {out}; {time.monotonic() - began:.0f} s in all")
    wrong = [what for what, one in (("idle", idle), ("load", load)) if abs(one.difference) > LARGEST_DIFFERENCE]
    if wrong:
        click.echo(f"power and energy differ by more than {LARGEST_DIFFERENCE:.0%}: {', '.join(wrong)}", err=True)
    if settings_of(gpu) != before:
        click.echo(f"the GPU's settings changed meanwhile: {settings_of(gpu)}", err=True)
    sys.exit(1 if wrong or settings_of(gpu) != before else 0)


if __name__ == "__main__":
    main()
