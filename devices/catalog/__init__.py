"""Facts about known boards, one TOML file each: names, steps, presets and the parameters of the emulation."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Curve = tuple[tuple[float, float], ...]
"""Points (clock in MHz, value), ascending; straight lines between them, constant outside."""


@dataclass(frozen=True)
class Preset:
    """What a power mode pins while the GPU clock and the batch size are searched.

    Attributes:
        gpu_max_mhz: The mode's cap on the GPU clock, or None.
        note: A sentence the user should know about the mode.
    """

    name: str
    cpu_cores: int
    cpu_freq_mhz: float
    emc_freq_mhz: float
    gpu_max_mhz: float | None = None
    note: str | None = None

    def pinned(self, knob: str) -> float:
        """The value the mode pins `cpu_cores`, `cpu_freq_mhz` or `emc_freq_mhz` to."""
        return {"cpu_cores": self.cpu_cores, "cpu_freq_mhz": self.cpu_freq_mhz, "emc_freq_mhz": self.emc_freq_mhz}[knob]


@dataclass(frozen=True)
class Timing:
    """How fast the board works.

    Attributes:
        gpu_flops_per_cycle: Sustained by training kernels.
        gpu_kernel_cycles: GPU cycles to fill and drain the chip, lost once a kernel.
        emc_bytes_per_cycle: Sustained by them, of the counted traffic (which knows neither caches nor workspaces).
        stream_bytes_per_cycle: Sustained by the optimizer's update, which only streams.
        roofline_exponent: p of (compute^p + memory^p)^(1/p): how sharply the slower of the two decides.
        launch_cycles: CPU cycles to launch one kernel, on the one thread that does it.
        step_cycles: CPU cycles a step costs that thread while the GPU waits (hand-over of the batch, reading the loss).
        loader_workers: Processes that prepare samples.
        loader_cycles_per_byte: CPU cycles to prepare a sample, per byte the model gets.
        background_cycles_per_s: CPU cycles a second that the system and the sampling of the sensors take.
        pipeline_exponent: As `roofline_exponent`, of the stages loaders, launches and GPU, which queues decouple.
        step_cv: Standard deviation over mean of the step time, by CPU clock.
    """

    gpu_flops_per_cycle: float
    gpu_kernel_cycles: float
    emc_bytes_per_cycle: float
    stream_bytes_per_cycle: float
    roofline_exponent: float
    launch_cycles: float
    step_cycles: float
    loader_workers: int
    loader_cycles_per_byte: float
    background_cycles_per_s: float
    pipeline_exponent: float
    step_cv: Curve


@dataclass(frozen=True)
class Power:
    """What the board draws. Capacitances in nF: C V^2 f with f in GHz gives watts.

    Attributes:
        base_w: Module beside the rails below, at any load.
        gpu_volts, cpu_volts: Supply voltage by clock.
        gpu_leak_w_per_v2, core_leak_w_per_v2: Leakage of the GPU and of one online core, over V^2.
        gpu_clock_nf: Clock tree of the busy GPU; an idle, ungated GPU keeps `gpu_idle_share` of it.
        gpu_pj_per_flop: Energy of a floating-point operation at 1 V.
        core_nf: One busy core; an idle online core keeps `core_idle_share` of it.
        soc_w, soc_w_per_emc_ghz: SOC rail: fabric and memory controller.
        soc_pj_per_byte: SOC rail: traffic.
        dram_w_per_emc_ghz, dram_pj_per_byte: Memory chips, seen in the total only.
        loss_per_w: Loss of the regulators, per square watt of everything they feed.
    """

    base_w: float
    gpu_volts: Curve
    cpu_volts: Curve
    gpu_leak_w_per_v2: float
    gpu_clock_nf: float
    gpu_idle_share: float
    gpu_pj_per_flop: float
    core_leak_w_per_v2: float
    core_nf: float
    core_idle_share: float
    soc_w: float
    soc_w_per_emc_ghz: float
    soc_pj_per_byte: float
    dram_w_per_emc_ghz: float
    dram_pj_per_byte: float
    loss_per_w: float


@dataclass(frozen=True)
class Memory:
    """Memory shared by the system and the GPU.

    Attributes:
        total_mib: As the kernel reports it.
        reserved_mib: System, CUDA context and libraries, trainer and loaders before any data.
        workspace_share: Peak over the kept activations: workspaces, gradients in flight, fragmentation.
        prefetched_batches: Batches the loaders hold ready.
    """

    total_mib: float
    reserved_mib: float
    workspace_share: float
    prefetched_batches: float


@dataclass(frozen=True)
class Meter:
    """The power meter and what varies under it.

    Attributes:
        rail: What the total is the power of, in words.
        lag_s: Time constant of the readings.
        quantum_w: Step of the readings.
        ripple: Standard deviation over mean of the readings under a constant load.
        power_spread, time_spread: The same of the means of repeated bursts (temperature, placement in memory).
    """

    rail: str
    lag_s: float
    quantum_w: float
    ripple: float
    power_spread: float
    time_spread: float


@dataclass(frozen=True)
class Protocol:
    """What a burst costs beside its window, in seconds."""

    setting_change_s: float
    warm_up_s: float
    first_step_s: float


@dataclass(frozen=True)
class Board:
    """A board that can be emulated. Clocks in MHz, ascending."""

    name: str
    aliases: tuple[str, ...]
    model: str
    gpu_freq_mhz: tuple[float, ...]
    cpu_freq_mhz: tuple[float, ...]
    cpu_cores: tuple[int, ...]
    emc_freq_mhz: tuple[float, ...]
    default_batch: int
    held_fixed: Mapping[str, Any]
    notes: tuple[str, ...]
    presets: tuple[Preset, ...]
    timing: Timing
    power: Power
    memory: Memory
    meter: Meter
    protocol: Protocol

    def steps(self, knob: str) -> tuple[float, ...]:
        """The values of the board for `gpu_freq_mhz`, `cpu_cores`, `cpu_freq_mhz` or `emc_freq_mhz`."""
        return {
            "gpu_freq_mhz": self.gpu_freq_mhz,
            "cpu_cores": self.cpu_cores,
            "cpu_freq_mhz": self.cpu_freq_mhz,
            "emc_freq_mhz": self.emc_freq_mhz,
        }[knob]

    def preset(self, name: str) -> Preset | None:
        """The preset of that name in any case of letters, or None."""
        return next((p for p in self.presets if p.name.lower() == name.lower()), None)


def load_catalog() -> tuple[Board, ...]:
    """Every board of the catalog, by file name."""
    return _load()


def find_board(name: str) -> Board | None:
    """The board of that name or alias, in any case of letters; None where it is unknown."""
    wanted = name.lower()
    return next((board for board in _load() if wanted in (board.name, *board.aliases)), None)


@functools.cache
def _load() -> tuple[Board, ...]:
    return tuple(_read_board(path) for path in sorted(Path(__file__).parent.glob("*.toml")))


def _read_board(path: Path) -> Board:
    """A field that is missing or unknown is a TypeError: the files are ours, and a test reads all of them."""
    document = _frozen(tomllib.loads(path.read_text(encoding="utf-8")))
    parts = {"timing": Timing, "power": Power, "memory": Memory, "meter": Meter, "protocol": Protocol}
    for name, part in parts.items():
        document[name] = part(**document[name])
    document["presets"] = tuple(Preset(name=name, **values) for name, values in document["presets"].items())
    return Board(**document)


def _frozen(value: Any) -> Any:
    """`value` with tuples for lists."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
