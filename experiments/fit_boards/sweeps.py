"""AGX Xavier and TX2: sweeps over the GPU clock, fitted by `T = a + c/f` and `P = p0 + p1 f + p3 f^3` to BoFL's data.

f in GHz, T in seconds a mini-batch, P in watts; CPU and memory at their highest clocks, all cores online. The workloads
are ViT-B/16 on 32x32 pictures (batch 32), an LSTM (batch 8) and ResNet-50 (batch 8), none of which is among ours. All
of them keep the GPU busy, so ResNet-18 (224x224) stands in for each, at the batch size of equal work: for ResNet-50
that of as many floating-point operations (18 x 10.6 against 8 x 24.5 GFLOP), for the others the one whose time grows
with 1/f as theirs does. How time depends on the batch size cannot be had from these data: it is the model's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from devices.catalog import Board
from devices.cost import count_step
from devices.device import WorkloadSpec
from devices.physics import Clocks, OperatingPoint, idle_power_w, operate
from experiments.fit_boards.fitting import Fit, Priors

STAND_IN = WorkloadSpec("resnet18")


@dataclass(frozen=True)
class Sweep:
    """A published sweep over the GPU clock, and the batch size of ResNet-18 that stands in for its workload."""

    workload: str
    batch: int
    time: tuple[float, float]
    power: tuple[float, float, float]

    def step_time_s(self, gpu_mhz: float) -> float:
        """Seconds a mini-batch."""
        return self.time[0] + self.time[1] * 1e3 / gpu_mhz

    def power_w(self, gpu_mhz: float) -> float:
        """Watts."""
        p0, p1, p3 = self.power
        return p0 + p1 * gpu_mhz / 1e3 + p3 * (gpu_mhz / 1e3) ** 3


@dataclass(frozen=True)
class Published:
    """What is known of a board.

    Attributes:
        lowest_w: Power with every clock at its lowest.
        slowdowns: Cap in watts, and how many times slower the best GPU clock alone is than the best of CPU, GPU and
            memory clocks, for ResNet-50.
        idle_w: Power of the idle board, or None.
    """

    sweeps: tuple[Sweep, ...]
    lowest_w: float
    slowdowns: tuple[tuple[float, float], ...]
    idle_w: float | None = None


AGX_XAVIER = Published(
    (
        Sweep("ViT b32", 12, (0.0195, 0.2219), (6.50, 5.46, 3.67)),
        Sweep("LSTM b8", 17, (0.0493, 0.3073), (6.44, 6.29, 2.50)),
        Sweep("ResNet50 b8", 18, (0.0168, 0.3243), (6.33, 6.01, 3.75)),
    ),
    lowest_w=4.5,
    slowdowns=((10, 1.54), (15, 1.12)),
)
TX2 = Published(
    (
        Sweep("ViT b32", 11, (0.0942, 0.4250), (3.75, 4.36, 0.72)),
        Sweep("LSTM b8", 14, (0.1804, 0.5472), (3.89, 5.23, 0.29)),
        Sweep("ResNet50 b8", 18, (0.1738, 0.7269), (3.83, 4.23, 0.87)),
    ),
    lowest_w=2.2,
    slowdowns=((5, 2.5), (7.5, 1.18), (10, 1.05)),
    idle_w=1.95,
)


def top(board: Board, gpu_mhz: float) -> Clocks:
    """That GPU clock with CPU and memory at their highest."""
    return Clocks(gpu_mhz, board.cpu_cores[-1], board.cpu_freq_mhz[-1], board.emc_freq_mhz[-1])


def emulated(board: Board, clocks: Clocks, batch: int) -> OperatingPoint:
    return operate(board, clocks, count_step(STAND_IN), batch)


def slowdown(board: Board, cap_w: float, batch: int) -> float:
    """How many times slower the best GPU clock alone is than the best of all, under a cap; 0 where none holds it."""

    def fastest_s(cpu: Sequence[float], emc: Sequence[float]) -> float:
        points = (
            emulated(board, Clocks(gpu_mhz, board.cpu_cores[-1], cpu_mhz, emc_mhz), batch)
            for cpu_mhz in cpu
            for emc_mhz in emc
            for gpu_mhz in board.gpu_freq_mhz
        )
        return min((point.step_time_s for point in points if point.rails.total_w <= cap_w), default=math.inf)

    alone_s = fastest_s(board.cpu_freq_mhz[-1:], board.emc_freq_mhz[-1:])
    return 0.0 if math.isinf(alone_s) else alone_s / fastest_s(board.cpu_freq_mhz[::3], board.emc_freq_mhz)


def misfits(board: Board, published: Published) -> Iterator[float]:
    for sweep in published.sweeps:
        for gpu_mhz in board.gpu_freq_mhz:
            point = emulated(board, top(board, gpu_mhz), sweep.batch)
            yield math.log(point.step_time_s / sweep.step_time_s(gpu_mhz)) / 0.03
            yield math.log(point.rails.total_w / sweep.power_w(gpu_mhz)) / 0.03
    lowest = Clocks(board.gpu_freq_mhz[0], board.cpu_cores[-1], board.cpu_freq_mhz[0], board.emc_freq_mhz[0])
    yield math.log(emulated(board, lowest, published.sweeps[-1].batch).rails.total_w / published.lowest_w) / 0.03
    if published.idle_w is not None:
        yield math.log(idle_power_w(board) / published.idle_w) / 0.05
    for cap_w, wanted in published.slowdowns:
        yield (slowdown(board, cap_w, published.sweeps[-1].batch) - wanted) / (0.1 * wanted)


def report(board: Board, published: Published) -> None:
    """Prints both, and how far they are apart."""
    for sweep in published.sweeps:
        click.echo(f"{sweep.workload}, by resnet18 at batch {sweep.batch}")
        click.echo(f"{'GPU':>8} {'ms':>6} {'emul.':>6} {'':>6} {'W':>6} {'emul.':>6}")
        for gpu_mhz in board.gpu_freq_mhz:
            point = emulated(board, top(board, gpu_mhz), sweep.batch)
            ms, watts = sweep.step_time_s(gpu_mhz) * 1e3, sweep.power_w(gpu_mhz)
            click.echo(
                f"{gpu_mhz:8.2f} {ms:6.0f} {point.step_time_s * 1e3:6.0f} {point.step_time_s * 1e3 / ms - 1:+6.1%} "
                f"{watts:6.2f} {point.rails.total_w:6.2f} {point.rails.total_w / watts - 1:+6.1%}"
            )
    batch = published.sweeps[-1].batch
    lowest = Clocks(board.gpu_freq_mhz[0], board.cpu_cores[-1], board.cpu_freq_mhz[0], board.emc_freq_mhz[0])
    click.echo(
        f"all clocks at their lowest: {published.lowest_w} W, {emulated(board, lowest, batch).rails.total_w:.2f} W"
    )
    click.echo(f"idle: {published.idle_w or '-'} W, {idle_power_w(board):.2f} W")
    for cap_w, wanted in published.slowdowns:
        click.echo(f"GPU clock alone at {cap_w:g} W: {wanted}x slower, {slowdown(board, cap_w, batch):.2f}x")


def fit(published: Published, priors: Priors) -> Fit:
    return Fit(priors, lambda board: list(misfits(board, published)), lambda board: report(board, published))


AGX_XAVIER_FIT = fit(
    AGX_XAVIER,
    {
        "timing.flops_per_cycle": (640, 1.2),
        "timing.emc_bytes_per_cycle": (30, 1.5),
        "timing.roofline_exponent": (2, 1.5),
        "timing.step_cycles": (8e6, 2),
        "gpu.volts@318.75": (0.62, 1.02),
        "gpu.volts@675.75": (0.70, 1.03),
        "gpu.volts@1032.75": (0.85, 1.03),
        "gpu.volts@1377": (1.05, 1.03),
        "gpu.leak_w_per_v2": (1.5, 1.5),
        "gpu.clock_nf": (5, 1.6),
        "gpu.pj_per_flop": (6, 1.6),
        "power.base_w": (1.5, 1.3),
        "power.cpu_volts@1190.4": (0.70, 1.02),
        "power.cpu_volts@2265.6": (1.05, 1.03),
        "power.core_leak_w_per_v2": (0.06, 1.5),
        "power.core_nf": (0.5, 1.4),
        "power.core_idle_share": (0.1, 1.5),
        "power.soc_w": (1.0, 1.3),
        "power.soc_w_per_emc_ghz": (0.3, 1.4),
        "power.soc_pj_per_byte": (20, 1.4),
        "power.dram_w_per_emc_ghz": (0.2, 1.5),
        "power.dram_pj_per_byte": (50, 1.4),
    },
)
TX2_FIT = fit(
    TX2,
    {
        "timing.flops_per_cycle": (310, 1.2),
        "timing.emc_bytes_per_cycle": (14, 1.5),
        "timing.roofline_exponent": (1.5, 1.5),
        "timing.step_cycles": (8e6, 2),
        "gpu.volts@420.75": (0.65, 1.03),
        "gpu.volts@828.75": (0.74, 1.03),
        "gpu.volts@1300.5": (0.95, 1.03),
        "gpu.leak_w_per_v2": (0.5, 1.5),
        "gpu.clock_nf": (2.5, 1.6),
        "gpu.pj_per_flop": (8, 1.6),
        "power.base_w": (0.8, 1.3),
        "power.cpu_volts@1113.6": (0.72, 1.02),
        "power.cpu_volts@2035.2": (1.0, 1.03),
        "power.core_leak_w_per_v2": (0.04, 1.5),
        "power.core_nf": (0.35, 1.4),
        "power.core_idle_share": (0.1, 1.5),
        "power.soc_w": (0.4, 1.3),
        "power.soc_w_per_emc_ghz": (0.25, 1.4),
        "power.soc_pj_per_byte": (20, 1.4),
        "power.dram_w_per_emc_ghz": (0.2, 1.5),
        "power.dram_pj_per_byte": (50, 1.4),
    },
)
