"""A physical model of a small board that trains: time, power and memory of one operating point.

Time: a roofline over GPU clock and memory clock (Williams et al., 2009), fed by loaders and launched by one CPU
thread. Power: leakage and C V^2 f on each rail, energy per operation and per byte moved. All of it without noise.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from devices.catalog import Board, Curve
from devices.cost import StepCost

MIB = 2.0**20


@dataclass(frozen=True)
class Clocks:
    """Where the clocks stand, and how many CPU cores are online."""

    gpu_freq_mhz: float
    cpu_cores: int
    cpu_freq_mhz: float
    emc_freq_mhz: float


@dataclass(frozen=True)
class Rails:
    """Power in watts: the total into the module, and the two rails metered inside it."""

    total_w: float
    cpu_gpu_w: float
    soc_w: float


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
    gpu_hz, cpu_hz, emc_hz = clocks.gpu_freq_mhz * 1e6, clocks.cpu_freq_mhz * 1e6, clocks.emc_freq_mhz * 1e6

    compute_s = flops / (timing.gpu_flops_per_cycle * gpu_hz)
    memory_s = traffic / (timing.emc_bytes_per_cycle * emc_hz)
    update_s = update_traffic / (timing.stream_bytes_per_cycle * emc_hz)
    ramp_s = kernels * timing.gpu_kernel_cycles / gpu_hz
    gpu_s = _soft_max(timing.roofline_exponent, compute_s, memory_s) + update_s + ramp_s

    launch_s = kernels * timing.launch_cycles / cpu_hz
    serial_s = timing.step_cycles / cpu_hz
    loader_s = batch_size * cost.input_bytes * timing.loader_cycles_per_byte / cpu_hz
    cpu_s = loader_s + launch_s + serial_s  # core-seconds a step
    background_cores = timing.background_cycles_per_s / cpu_hz
    free_cores = max(clocks.cpu_cores - background_cores, 0.1 * clocks.cpu_cores)
    loading_s = max(loader_s / min(timing.loader_workers, free_cores), cpu_s / free_cores)
    step_s = _soft_max(timing.pipeline_exponent, loading_s, serial_s + max(launch_s, gpu_s))

    load = Load(
        gpu_busy=min(gpu_s / step_s, 1.0),
        cores_busy=min(cpu_s / step_s + background_cores, float(clocks.cpu_cores)),
        flops_per_s=flops / step_s,
        bytes_per_s=(traffic + update_traffic) / step_s,
    )
    return OperatingPoint(step_s, load, rails(board, clocks, load))


def rails(board: Board, clocks: Clocks, load: Load) -> Rails:
    """Power of every rail under `load`, with the GPU powered."""
    return _rails(board, clocks, load, gpu_powered=True)


def idle_power_w(board: Board) -> float:
    """The total while nothing runs and the governors rule: lowest clocks, GPU without power, all cores online."""
    lowest = Clocks(board.gpu_freq_mhz[0], board.cpu_cores[-1], board.cpu_freq_mhz[0], board.emc_freq_mhz[0])
    return _rails(board, lowest, Load(), gpu_powered=False).total_w


def _rails(board: Board, clocks: Clocks, load: Load, *, gpu_powered: bool) -> Rails:
    power = board.power
    gpu_ghz, cpu_ghz, emc_ghz = clocks.gpu_freq_mhz / 1e3, clocks.cpu_freq_mhz / 1e3, clocks.emc_freq_mhz / 1e3
    gpu_v2 = interpolate(power.gpu_volts, clocks.gpu_freq_mhz) ** 2
    cpu_v2 = interpolate(power.cpu_volts, clocks.cpu_freq_mhz) ** 2

    gpu_clocked = power.gpu_idle_share + (1 - power.gpu_idle_share) * load.gpu_busy
    gpu_w = gpu_v2 * (
        power.gpu_leak_w_per_v2
        + power.gpu_clock_nf * gpu_ghz * gpu_clocked
        + power.gpu_pj_per_flop * 1e-12 * load.flops_per_s
    )
    cores_clocked = power.core_idle_share * clocks.cpu_cores + (1 - power.core_idle_share) * load.cores_busy
    cpu_w = cpu_v2 * (power.core_leak_w_per_v2 * clocks.cpu_cores + power.core_nf * cpu_ghz * cores_clocked)
    cpu_gpu_w = cpu_w + (gpu_w if gpu_powered else 0.0)
    soc_w = power.soc_w + power.soc_w_per_emc_ghz * emc_ghz + power.soc_pj_per_byte * 1e-12 * load.bytes_per_s
    dram_w = power.dram_w_per_emc_ghz * emc_ghz + power.dram_pj_per_byte * 1e-12 * load.bytes_per_s
    fed_w = cpu_gpu_w + soc_w + dram_w
    return Rails(power.base_w + fed_w + power.loss_per_w * fed_w**2, cpu_gpu_w, soc_w)


def memory_mib(board: Board, cost: StepCost, batch_size: int) -> float:
    """Memory in use while training, of everything that shares it with the GPU."""
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
