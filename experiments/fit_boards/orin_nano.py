"""Orin Nano 8 GB, stock, JetPack 5: ResNet-18 training (224x224, batch 16, four loader workers).

Aggregated from the Dream-Lab power-mode logs; VDD_IN is estimated there from the summed rails, within about 0.3 W.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import click
import numpy as np

from devices.catalog import Board
from devices.cost import count_step
from devices.device import WorkloadSpec
from devices.physics import Clocks, OperatingPoint, idle_power_w, operate
from experiments.fit_boards.fitting import Fit

BATCH = 16
# cores, CPU MHz, EMC MHz, GPU MHz: milliseconds a step, watts
PUBLISHED = {
    (4, 1510.4, 2133.0, 306.0): (333, 8.9),
    (4, 1510.4, 2133.0, 510.0): (203, 11.5),
    (4, 1510.4, 2133.0, 624.75): (172, 12.6),
    (4, 1510.4, 665.6, 306.0): (432, 7.7),
    (4, 1510.4, 665.6, 510.0): (376, 8.5),
    (4, 1510.4, 665.6, 624.75): (366, 8.8),
    (4, 1036.8, 2133.0, 306.0): (333, 8.3),
    (4, 1036.8, 2133.0, 510.0): (204, 9.0),
    (4, 1036.8, 2133.0, 624.75): (173, 9.8),
    (2, 422.4, 2133.0, 624.75): (367, 7.0),
}
CPU_MHZ = (268.8, 422.4, 576.0, 729.6, 883.2, 1036.8, 1190.4, 1344.0, 1497.6, 1510.4)
MODES = [(c, f, e, g) for c in (2, 4, 6) for f in CPU_MHZ for e in (665.6, 2133.0) for g in (306.0, 510.0, 624.75)]
IDLE_W = 3.4
LOWEST_W, MEDIAN_W, HIGHEST_W, SLOWEST_S = 5.3, 8.1, 12.6, 0.75  # over the modes
MODES_UP_TO_7_W, MODES_UP_TO_10_W = 30, 147  # published 19 and 147; 10 to 40 within the error of the estimate
FULL_CPU_GPU_W, FULL_SOC_W = 4.96, 2.56  # a tegrastats line of a fully loaded stock board

PRIORS = {
    "timing.flops_per_cycle": (1500, 2.0),
    "timing.emc_bytes_per_cycle": (14, 2.0),
    "timing.roofline_exponent": (3, 1.5),
    "timing.loader_cycles_per_byte": (32, 1.5),
    "timing.background_cycles_per_s": (80e6, 1.3),
    "power.base_w": (1.3, 1.4),
    "gpu.leak_w_per_v2": (0.8, 1.5),
    "gpu.clock_nf": (2.0, 1.6),
    "gpu.idle_share": (0.4, 1.4),
    "gpu.pj_per_flop": (4, 1.6),
    "power.core_leak_w_per_v2": (0.08, 1.5),
    "power.core_nf": (0.6, 1.4),
    "power.core_idle_share": (0.25, 1.5),
    "power.soc_w": (0.8, 1.2),
    "power.soc_w_per_emc_ghz": (0.3, 1.4),
    "power.soc_pj_per_byte": (20, 1.4),
    "power.dram_w_per_emc_ghz": (0.2, 1.5),
    "power.dram_pj_per_byte": (60, 1.4),
    "power.loss_per_w": (0.015, 1.5),
    "gpu.volts@306": (0.62, 1.01),
    "gpu.volts@624.75": (0.68, 1.01),
    "power.cpu_volts@729.6": (0.68, 1.015),
    "power.cpu_volts@1036.8": (0.72, 1.015),
    "power.cpu_volts@1510.4": (1.0, 1.03),
}


def run(board: Board, mode: tuple[int, float, float, float]) -> OperatingPoint:
    cores, cpu_mhz, emc_mhz, gpu_mhz = mode
    return operate(board, Clocks(gpu_mhz, cores, cpu_mhz, emc_mhz), count_step(WorkloadSpec("resnet18")), BATCH)


def misfits(board: Board) -> Iterator[float]:
    """In units of what each figure may be off by."""
    for mode, (milliseconds, watts) in PUBLISHED.items():
        point = run(board, mode)
        yield math.log(point.step_time_s * 1e3 / milliseconds) / 0.02
        yield math.log(point.rails.total_w / watts) / (0.015 if mode[0] == 2 else 0.025)
        inner_w = 0.678 * watts - 1.017  # from VDD_IN = 0.606 W + 0.596 x sum of the three rails
        yield (point.rails.of(["cpu", "gpu", "soc"]) - inner_w) / 0.4
    full = run(board, (4, 1510.4, 2133.0, 624.75)).rails
    yield from ((full.of(["cpu", "gpu"]) - FULL_CPU_GPU_W) / 0.3, (full.soc_w - FULL_SOC_W) / 0.15)
    yield math.log(idle_power_w(board) / IDLE_W) / 0.03
    points = [run(board, mode) for mode in MODES]
    watts_sorted = np.sort([point.rails.total_w for point in points])
    yield math.log(watts_sorted[0] / LOWEST_W) / 0.04
    yield math.log(np.median(watts_sorted) / MEDIAN_W) / 0.02
    yield math.log(watts_sorted[-1] / HIGHEST_W) / 0.05
    yield math.log(max(point.step_time_s for point in points) / SLOWEST_S) / 0.06
    yield (watts_sorted[MODES_UP_TO_7_W] - 7) / 0.06
    yield (watts_sorted[MODES_UP_TO_10_W] - 10) / 0.3


def report(board: Board) -> None:
    """Prints the table of published and emulated figures."""
    click.echo(f"{'cores':>5} {'CPU':>7} {'EMC':>7} {'GPU':>7} {'ms':>5} {'emul.':>6} {'':>6} {'W':>5} {'emul.':>6}")
    for mode, (milliseconds, watts) in PUBLISHED.items():
        point = run(board, mode)
        emulated_ms, emulated_w = point.step_time_s * 1e3, point.rails.total_w
        click.echo(
            f"{mode[0]:5d} {mode[1]:7.1f} {mode[2]:7.1f} {mode[3]:7.2f} {milliseconds:5d} {emulated_ms:6.0f} "
            f"{emulated_ms / milliseconds - 1:+6.1%} {watts:5.1f} {emulated_w:6.2f} {emulated_w / watts - 1:+6.1%}"
        )
    points = [run(board, mode) for mode in MODES]
    watts_all = np.array([point.rails.total_w for point in points])
    seconds = np.array([point.step_time_s for point in points])
    click.echo(
        f"idle {idle_power_w(board):.2f} W; {len(MODES)} modes: {watts_all.min():.2f} to {watts_all.max():.2f} W, ",
        nl=False,
    )
    click.echo(
        f"median {np.median(watts_all):.2f} W, {seconds.min() * 1e3:.0f} to {seconds.max() * 1e3:.0f} ms, ", nl=False
    )
    click.echo(f"{(watts_all <= 7).sum()} up to 7 W, {(watts_all <= 10).sum()} up to 10 W")


FIT = Fit(PRIORS, lambda board: list(misfits(board)), report)
