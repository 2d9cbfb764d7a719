"""A physical model of a small board that trains: time, power and memory of one operating point.

Time: a roofline over the clock of what trains and the memory clock (Williams et al., 2009), fed by loaders and launched
by one CPU thread; without a GPU all of them share the CPU. Power: leakage and C V^2 f of each consumer, energy per
operation and per byte moved. All of it without noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from devices.catalog import Board, Curve
from devices.cost import StepCost

MIB = 2.0**20


@dataclass(frozen=True)
class Clocks:
    """Where the clocks stand, and how many CPU cores are online. Without a GPU its clock is 0."""

    gpu_freq_mhz: float
    cpu_cores: int
    cpu_freq_mhz: float
    emc_freq_mhz: float


@dataclass(frozen=True)
class Rails:
    """Power in watts by consumer: see `devices.catalog.CONSUMERS`."""

    gpu_w: float
    cpu_w: float
    soc_w: float
    dram_w: float
    rest_w: float

    @property
    def total_w(self) -> float:
        """The power into the module."""
        return self.gpu_w + self.cpu_w + self.soc_w + self.dram_w + self.rest_w

    def of(self, consumers: Iterable[str]) -> float:
        """The power of some of the consumers together, as a rail that feeds them shows it."""
        return sum(float(getattr(self, f"{name}_w")) for name in consumers)


@dataclass(frozen=True)
class Load:
    """What keeps the board busy, averaged over a step.

    Attributes:
        gpu_busy: Share of the time the GPU works, 0 to 1.
        cores_busy: CPU cores at work, 0 to the number online.
        flops_per_s: Floating-point operations a second.
        bytes_per_s: Memory traffic a second.
    """

    gpu_busy: float = 0.0
    cores_busy: float = 0.0
    flops_per_s: float = 0.0
    bytes_per_s: float = 0.0


@dataclass(frozen=True)
class OperatingPoint:
    """A training run in steady state: seconds per micro-batch (its share of the update included) and power."""

    step_time_s: float
    load: Load
    rails: Rails


def operate(board: Board, clocks: Clocks, cost: StepCost, batch_size: int, accumulation: int = 1) -> OperatingPoint:
    """Time and power of training at `clocks` with micro-batches of `batch_size`, one update every `accumulation`."""
    timing = board.timing
    flops = cost.flops.at(batch_size)
    traffic = cost.traffic_bytes.at(batch_size)
    update_traffic = cost.update_traffic_bytes / accumulation
    kernels = cost.kernels + cost.update_kernels / accumulation
    cpu_hz, emc_hz = clocks.cpu_freq_mhz * 1e6, clocks.emc_freq_mhz * 1e6
    background_cores = timing.background_cycles_per_s / cpu_hz
    free_cores = max(clocks.cpu_cores - background_cores, 0.1 * clocks.cpu_cores)
    hz, units = (clocks.gpu_freq_mhz * 1e6, 1.0) if board.gpu is not None else (cpu_hz, free_cores)

    compute_s = flops * _stall(board, cost, batch_size) / (timing.flops_per_cycle * hz * units)
    memory_s = traffic / (timing.emc_bytes_per_cycle * emc_hz)
    update_s = update_traffic / (timing.stream_bytes_per_cycle * emc_hz)
    ramp_s = kernels * timing.kernel_cycles / hz
    kernels_s = _soft_max(timing.roofline_exponent, compute_s, memory_s) + update_s + ramp_s

    launch_s = kernels * timing.launch_cycles / cpu_hz
    serial_s = timing.step_cycles / cpu_hz
    loader_s = batch_size * cost.input_bytes * timing.loader_cycles_per_byte / cpu_hz  # of one core
    core_s = loader_s + launch_s + serial_s  # core-seconds a step
    if board.gpu is not None:
        loading_s = max(loader_s / min(timing.loader_workers, free_cores), core_s / free_cores)
        step_s = _soft_max(timing.pipeline_exponent, loading_s, serial_s + max(launch_s, kernels_s))
    else:  # the thread that launches a kernel waits for it, and the loaders take cores from it
        step_s = serial_s + launch_s + kernels_s + loader_s / free_cores
        core_s += kernels_s * free_cores

    load = Load(
        gpu_busy=min(kernels_s / step_s, 1.0) if board.gpu is not None else 0.0,
        cores_busy=min(core_s / step_s + background_cores, float(clocks.cpu_cores)),
        flops_per_s=flops / step_s,
        bytes_per_s=(traffic + update_traffic) / step_s,
    )
    return OperatingPoint(step_s, load, rails(board, clocks, load))


def _stall(board: Board, cost: StepCost, batch_size: int) -> float:
    """By how much kernels are slowed down by operands that do not fit into the cache, 1 where they do."""
    operands = cost.traffic_bytes.per_sample * batch_size / max(cost.kernels, 1)
    missed = max(1 - board.timing.cache_mib * MIB / operands, 0.0) if operands > 0 else 0.0
    return 1 + board.timing.cache_stall * missed


def rails(board: Board, clocks: Clocks, load: Load) -> Rails:
    """Power of every consumer under `load`, with the GPU powered."""
    return _rails(board, clocks, load, gpu_powered=True)


def idle_power_w(board: Board) -> float:
    """The total while nothing runs and the governors rule: lowest clocks, GPU without power, all cores online."""
    gpu_mhz = min(board.gpu_freq_mhz, default=0.0)
    lowest = Clocks(gpu_mhz, board.cpu_cores[-1], board.cpu_freq_mhz[0], board.emc_freq_mhz[0])
    return _rails(board, lowest, Load(), gpu_powered=False).total_w


def _rails(board: Board, clocks: Clocks, load: Load, *, gpu_powered: bool) -> Rails:
    power = board.power
    cpu_ghz, emc_ghz = clocks.cpu_freq_mhz / 1e3, clocks.emc_freq_mhz / 1e3
    cpu_v2 = interpolate(power.cpu_volts, clocks.cpu_freq_mhz) ** 2
    cores_clocked = power.core_idle_share * clocks.cpu_cores + (1 - power.core_idle_share) * load.cores_busy
    cpu_w = cpu_v2 * (power.core_leak_w_per_v2 * clocks.cpu_cores + power.core_nf * cpu_ghz * cores_clocked)
    gpu_w = _gpu_w(board, clocks, load) if gpu_powered else 0.0
    soc_w = power.soc_w + power.soc_w_per_emc_ghz * emc_ghz + power.soc_pj_per_byte * 1e-12 * load.bytes_per_s
    dram_w = power.dram_w_per_emc_ghz * emc_ghz + power.dram_pj_per_byte * 1e-12 * load.bytes_per_s
    fed_w = cpu_w + gpu_w + soc_w + dram_w
    return Rails(gpu_w, cpu_w, soc_w, dram_w, power.base_w + power.loss_per_w * fed_w**2)


def _gpu_w(board: Board, clocks: Clocks, load: Load) -> float:
    """The power of a GPU that is not gated."""
    gpu = board.gpu
    if gpu is None:
        return 0.0
    clocked = gpu.idle_share + (1 - gpu.idle_share) * load.gpu_busy
    return interpolate(gpu.volts, clocks.gpu_freq_mhz) ** 2 * (
        gpu.leak_w_per_v2
        + gpu.clock_nf * clocks.gpu_freq_mhz / 1e3 * clocked
        + gpu.pj_per_flop * 1e-12 * load.flops_per_s
    )


def memory_mib(board: Board, cost: StepCost, batch_size: int) -> float:
    """Memory in use while training, of everything that shares it."""
    memory = board.memory
    model = cost.parameter_bytes + cost.gradient_bytes + cost.optimizer_bytes
    activations = cost.activation_bytes.at(batch_size) * (1 + memory.workspace_share)
    waiting = memory.prefetched_batches * batch_size * cost.input_bytes
    return memory.reserved_mib + (model + activations + waiting) / MIB


def interpolate(curve: Curve, mhz: float) -> float:
    """The value of a curve at `mhz`."""
    if mhz <= curve[0][0]:
        return curve[0][1]
    for (left_mhz, left), (right_mhz, right) in itertools.pairwise(curve):
        if mhz <= right_mhz:
            return left + (right - left) * (mhz - left_mhz) / (right_mhz - left_mhz)
    return curve[-1][1]


def _soft_max(exponent: float, *seconds: float) -> float:
    """The p-norm of positive durations: between the longest and, where they are alike, somewhat more."""
    longest = max(seconds)
    return float(longest * sum((s / longest) ** exponent for s in seconds) ** (1 / exponent))
