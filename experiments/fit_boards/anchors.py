"""Boards of which only a few powers are known, idle or under full load. Their models are scaled or assumed besides.

A full load is ResNet-18 (224x224, batch 16) at the highest clock that the preset leaves open.
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

FULL_LOAD, BATCH = WorkloadSpec("resnet18"), 16
SMALL = WorkloadSpec("resnet18", {"image_size": 32})
IDLE, LOWEST = "idle", "lowest"


@dataclass(frozen=True)
class Anchor:
    """A known power.

    Attributes:
        where: A preset under full load, `IDLE`, or `LOWEST`: full load with every clock and core at its lowest.
        tolerance: What it may be off by, relative.
        consumers: What the power is of; empty: the total.
    """

    where: str
    watts: float
    tolerance: float
    consumers: tuple[str, ...] = ()

    def emulated_w(self, board: Board) -> float:
        """The same power of the model."""
        if self.where == IDLE:
            return idle_power_w(board)
        rails = full_load(board, self.where).rails
        return rails.of(self.consumers) if self.consumers else rails.total_w


def full_load(board: Board, where: str, workload: WorkloadSpec = FULL_LOAD, batch: int = BATCH) -> OperatingPoint:
    """The board at work in a preset, or with every clock and core at its lowest."""
    speeds = [board.steps(board.speed_knob)[0]]
    pinned = {name: board.steps(name)[0] for name in board.pinned_knobs}
    if where != LOWEST:
        preset = board.preset(where)
        assert preset is not None, where
        speeds = list(board.speed_steps(preset))
        pinned = {name: value for name in board.pinned_knobs if (value := preset.pinned(name)) is not None}
    values = {"gpu_freq_mhz": 0.0, **pinned, board.speed_knob: speeds[-1]}
    clocks = Clocks(values["gpu_freq_mhz"], int(values["cpu_cores"]), values["cpu_freq_mhz"], values["emc_freq_mhz"])
    return operate(board, clocks, count_step(workload), batch)


@dataclass(frozen=True)
class Known:
    """What is known of a board.

    Attributes:
        largest_batch_slowdown: How many times more slowly than the best the largest batch trains small pictures.
    """

    anchors: tuple[Anchor, ...]
    largest_batch_slowdown: float | None = None


def slowdown(board: Board) -> float:
    """How many times more slowly batches of 256 small pictures train than those of the best size."""
    batches = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    rates = [batch / full_load(board, board.presets[0].name, SMALL, batch).step_time_s for batch in batches]
    return max(rates) / rates[-1]


def misfits(board: Board, known: Known) -> Iterator[float]:
    for anchor in known.anchors:
        yield math.log(anchor.emulated_w(board) / anchor.watts) / anchor.tolerance
    if known.largest_batch_slowdown is not None:
        yield math.log(slowdown(board) / known.largest_batch_slowdown) / 0.05


def report(board: Board, known: Known) -> None:
    """Prints what is known, and the same of the model."""
    for anchor in known.anchors:
        what = f"{anchor.where} ({' + '.join(anchor.consumers)})" if anchor.consumers else anchor.where
        click.echo(f"{what}: {anchor.watts:g} W, {anchor.emulated_w(board):.2f} W")
    if known.largest_batch_slowdown is not None:
        click.echo(f"largest batch: {known.largest_batch_slowdown}x slower, {slowdown(board):.2f}x")


def fit(anchors: Sequence[Anchor], priors: Priors, largest_batch_slowdown: float | None = None) -> Fit:
    known = Known(tuple(anchors), largest_batch_slowdown)
    return Fit(priors, lambda board: list(misfits(board, known)), lambda board: report(board, known))


FITS: dict[str, Fit] = {
    "jetson-orin-nx": fit(
        [Anchor("40W", 27.6, 0.03), Anchor("MAXN_SUPER", 29.4, 0.03), Anchor("25W", 17, 0.1), Anchor(IDLE, 4.5, 0.2)],
        {
            "gpu.volts@306": (0.626, 1.01),
            "gpu.volts@624.75": (0.673, 1.01),
            "gpu.volts@1173": (0.95, 1.05),
            "power.base_w": (2.6, 1.3),
            "power.cpu_volts@729.6": (0.68, 1.01),
            "power.cpu_volts@1036.8": (0.723, 1.01),
            "power.cpu_volts@1497.6": (0.9, 1.05),
            "power.cpu_volts@1984": (1.05, 1.05),
            "power.loss_per_w": (0.0142, 1.3),
        },
    ),
    "jetson-agx-orin": fit(
        [Anchor(IDLE, 8.7, 0.03), Anchor(LOWEST, 11.4, 0.1), Anchor("MAXN", 50, 0.1)],
        {"power.base_w": (5, 1.4), "power.loss_per_w": (0.002, 1.5), "gpu.leak_w_per_v2": (2.18, 1.2)},
    ),
    "jetson-xavier-nx": fit(
        [Anchor("15W_6CORE", 15, 0.1), Anchor("10W_4CORE", 10, 0.1), Anchor(IDLE, 3.4, 0.2)],
        {
            "gpu.clock_nf": (4.35, 1.2),
            "gpu.pj_per_flop": (7.49, 1.2),
            "power.base_w": (1.5, 1.4),
            "power.core_nf": (0.623, 1.2),
            "power.loss_per_w": (0.005, 1.5),
        },
    ),
    "jetson-nano": fit(
        [Anchor(IDLE, 1.69, 0.03), Anchor("MAXN", 10, 0.1), Anchor("5W", 5, 0.1)],
        {
            "gpu.leak_w_per_v2": (0.3, 1.5),
            "gpu.clock_nf": (2, 1.5),
            "gpu.pj_per_flop": (15, 1.5),
            "power.base_w": (0.6, 1.4),
            "power.core_nf": (0.35, 1.4),
            "power.soc_pj_per_byte": (25, 1.4),
            "power.dram_pj_per_byte": (60, 1.4),
        },
    ),
    "raspberry-pi-4": fit(
        [Anchor(IDLE, 2.5, 0.03), Anchor("4C", 5, 0.05)],
        {"power.base_w": (1.5, 1.4), "power.core_nf": (0.35, 1.5), "timing.cache_stall": (1.2, 1.5)},
        largest_batch_slowdown=2.0,
    ),
    "raspberry-pi-5": fit(
        [Anchor(IDLE, 3, 0.1), Anchor("4C", 8.88, 0.02), Anchor("4C", 5.36, 0.02, ("cpu",))],
        {"power.base_w": (1.5, 1.4), "power.core_nf": (0.65, 1.5), "power.soc_w": (0.4, 1.4)},
    ),
}
