"""Fits the emulated Orin Nano to published figures: `python -m experiments.fit_orin_nano` prints parameters and errors.

The figures are ResNet-18 training (224x224, batch 16, four loader workers) on a stock Orin Nano 8 GB with JetPack 5,
aggregated from the Dream-Lab power-mode logs; VDD_IN is estimated there from the summed rails, within about 0.3 W.
Ten rows cannot pin every parameter, so each has a prior: a plausible value and the factor it may be off by. What is
not listed here stays as the catalog has it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from devices.catalog import Board, find_board
from devices.cost import count_step
from devices.device import WorkloadSpec
from devices.physics import Clocks, OperatingPoint, idle_power_w, operate

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

TIMING = {  # plausible value, factor
    "gpu_flops_per_cycle": (1500, 2.0),
    "emc_bytes_per_cycle": (14, 2.0),
    "roofline_exponent": (3, 1.5),
    "loader_cycles_per_byte": (32, 1.5),
    "background_cycles_per_s": (80e6, 1.3),
}
POWER = {
    "base_w": (1.3, 1.4),
    "gpu_leak_w_per_v2": (0.8, 1.5),
    "gpu_clock_nf": (2.0, 1.6),
    "gpu_idle_share": (0.4, 1.4),
    "gpu_pj_per_flop": (4, 1.6),
    "core_leak_w_per_v2": (0.08, 1.5),
    "core_nf": (0.6, 1.4),
    "core_idle_share": (0.25, 1.5),
    "soc_w": (0.8, 1.2),
    "soc_w_per_emc_ghz": (0.3, 1.4),
    "soc_pj_per_byte": (20, 1.4),
    "dram_w_per_emc_ghz": (0.2, 1.5),
    "dram_pj_per_byte": (60, 1.4),
    "loss_per_w": (0.015, 1.5),
}
VOLTS = {  # (rail, MHz): volts, factor
    ("gpu_volts", 306.0): (0.62, 1.01),
    ("gpu_volts", 624.75): (0.68, 1.01),
    ("cpu_volts", 729.6): (0.68, 1.015),
    ("cpu_volts", 1036.8): (0.72, 1.015),
    ("cpu_volts", 1510.4): (1.0, 1.03),
}
PRIORS = [*TIMING.values(), *POWER.values(), *VOLTS.values()]
COST = count_step(WorkloadSpec("resnet18"))


def with_parameters(board: Board, values: npt.NDArray[np.float64]) -> Board:
    """The board with the fitted parameters, in the order of `PRIORS`."""
    numbers = [float(value) for value in values]
    timing: dict[str, Any] = dict(zip(TIMING, numbers, strict=False))
    power: dict[str, Any] = dict(zip(POWER, numbers[len(TIMING) :], strict=False))
    volts = dict(zip(VOLTS, numbers[len(TIMING) + len(POWER) :], strict=True))
    power |= {
        rail: tuple((mhz, value) for (name, mhz), value in volts.items() if name == rail)
        for rail in ("gpu_volts", "cpu_volts")
    }
    return dataclasses.replace(
        board,
        timing=dataclasses.replace(board.timing, **timing),
        power=dataclasses.replace(board.power, **power),
    )


def run(board: Board, mode: tuple[int, float, float, float]) -> OperatingPoint:
    cores, cpu_mhz, emc_mhz, gpu_mhz = mode
    return operate(board, Clocks(gpu_mhz, cores, cpu_mhz, emc_mhz), COST, BATCH)


def residuals(logarithms: npt.NDArray[np.float64], board: Board) -> npt.NDArray[np.float64]:
    """Misfits in units of what each figure may be off by, then the priors."""
    board = with_parameters(board, np.exp(logarithms))
    result = []
    for mode, (milliseconds, watts) in PUBLISHED.items():
        point = run(board, mode)
        result.append(math.log(point.step_time_s * 1e3 / milliseconds) / 0.02)
        result.append(math.log(point.rails.total_w / watts) / (0.015 if mode[0] == 2 else 0.025))
        inner_w = 0.678 * watts - 1.017  # from VDD_IN = 0.606 W + 0.596 x sum of the three rails
        result.append((point.rails.cpu_gpu_w + point.rails.soc_w - inner_w) / 0.4)
    full = run(board, (4, 1510.4, 2133.0, 624.75)).rails
    result += [(full.cpu_gpu_w - FULL_CPU_GPU_W) / 0.3, (full.soc_w - FULL_SOC_W) / 0.15]
    result.append(math.log(idle_power_w(board) / IDLE_W) / 0.03)
    points = [run(board, mode) for mode in MODES]
    watts_sorted = np.sort([point.rails.total_w for point in points])
    result += [
        math.log(watts_sorted[0] / LOWEST_W) / 0.04,
        math.log(np.median(watts_sorted) / MEDIAN_W) / 0.02,
        math.log(watts_sorted[-1] / HIGHEST_W) / 0.05,
        math.log(max(point.step_time_s for point in points) / SLOWEST_S) / 0.06,
        (watts_sorted[MODES_UP_TO_7_W] - 7) / 0.06,
        (watts_sorted[MODES_UP_TO_10_W] - 10) / 0.3,
    ]
    for value, (plausible, factor) in zip(logarithms, PRIORS, strict=True):
        result.append((value - math.log(plausible)) / math.log(factor))
    return np.array(result)


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


def main() -> None:
    board = find_board("jetson-orin-nano")
    assert board is not None
    click.echo("as in the catalog")
    report(board)
    start = np.log([plausible for plausible, _ in PRIORS])
    values = np.exp(least_squares(residuals, start, args=(board,)).x)
    click.echo("\nfitted anew")
    for name, value in zip([*TIMING, *POWER, *VOLTS], values, strict=True):
        click.echo(f"{name} = {value:.4g}")
    report(with_parameters(board, values))


if __name__ == "__main__":
    main()
