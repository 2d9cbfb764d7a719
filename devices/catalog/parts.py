"""What a board of the catalog consists of: each class is a table of its TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Curve = tuple[tuple[float, float], ...]
"""Points (clock in MHz, value), ascending; straight lines between them, constant outside."""

GPU_KNOB, CPU_KNOB = "gpu_freq_mhz", "cpu_freq_mhz"
BOARD_KNOBS = (GPU_KNOB, "cpu_cores", CPU_KNOB, "emc_freq_mhz")
CONSUMERS = ("gpu", "cpu", "soc", "dram", "rest")
"""What draws power: `soc` is fabric and memory controller, `rest` the module beside them, with the regulators' loss."""


@dataclass(frozen=True)
class Preset:
    """What a power mode pins while the clock of what trains (the GPU's, or the CPU's) and the batch size are searched.

    Attributes:
        cpu_freq_mhz: None where the CPU's clock is the one that is searched.
        gpu_max_mhz: The mode's cap on the GPU clock, or None.
        nominal_w: The power the vendor names the mode by, which nobody measures; None for one without.
        note: A sentence the user should know about the mode.
    """

    name: str
    cpu_cores: int
    emc_freq_mhz: float
    cpu_freq_mhz: float | None = None
    gpu_max_mhz: float | None = None
    nominal_w: float | None = None
    note: str | None = None

    def pinned(self, knob: str) -> float | None:
        """The value the mode pins `cpu_cores`, `cpu_freq_mhz` or `emc_freq_mhz` to; None where it pins none."""
        return {"cpu_cores": self.cpu_cores, CPU_KNOB: self.cpu_freq_mhz, "emc_freq_mhz": self.emc_freq_mhz}[knob]


@dataclass(frozen=True)
class Timing:
    """How fast the board works. Kernels run on the GPU; on a board without one, on all CPU cores together.

    Attributes:
        flops_per_cycle: Sustained by training kernels, of the GPU or of one CPU core.
        kernel_cycles: Cycles of it lost once a kernel: filling and draining a GPU, gathering the threads of a CPU.
        emc_bytes_per_cycle: Sustained by them, of the counted traffic (which knows neither caches nor workspaces).
        stream_bytes_per_cycle: Sustained by the optimizer's update, which only streams.
        roofline_exponent: p of (compute^p + memory^p)^(1/p): how sharply the slower of the two decides.
        launch_cycles: CPU cycles to launch one kernel, on the one thread that does it.
        step_cycles: CPU cycles a step costs that thread while nothing else works (hand-over of the batch, the loss).
        loader_workers: Processes that prepare samples.
        loader_cycles_per_byte: CPU cycles to prepare a sample, per byte the model gets.
        background_cycles_per_s: CPU cycles a second that the system and the sampling of the sensors take.
        pipeline_exponent: As `roofline_exponent`, of the stages loaders, launches and GPU, which queues decouple.
        step_cv: Standard deviation over mean of the step time, by CPU clock.
        burst_spread: The same of the means of repeated bursts (temperature, placement in memory).
        cache_mib, cache_stall: Cache that the kernels' operands share; operands far larger take 1 + `cache_stall` times
            the cycles. No stall: kernels that hide the latency of memory, as those of a GPU do.
    """

    flops_per_cycle: float
    kernel_cycles: float
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
    burst_spread: float
    cache_mib: float = 1.0
    cache_stall: float = 0.0


@dataclass(frozen=True)
class Gpu:
    """What the GPU draws. Capacitances in nF: C V^2 f with f in GHz gives watts.

    Attributes:
        volts: Supply voltage by clock.
        leak_w_per_v2: Leakage, over V^2.
        clock_nf: Clock tree of the busy GPU; an idle, ungated GPU keeps `idle_share` of it.
        pj_per_flop: Energy of a floating-point operation at 1 V.
    """

    volts: Curve
    leak_w_per_v2: float
    clock_nf: float
    idle_share: float
    pj_per_flop: float


@dataclass(frozen=True)
class Power:
    """What the board draws beside its GPU. Capacitances in nF: C V^2 f with f in GHz gives watts.

    Attributes:
        base_w: Module beside the consumers below, at any load.
        cpu_volts: Supply voltage by clock.
        core_leak_w_per_v2: Leakage of one online core, over V^2.
        core_nf: One busy core; an idle online core keeps `core_idle_share` of it.
        soc_w, soc_w_per_emc_ghz: Fabric and memory controller.
        soc_pj_per_byte: The same, for traffic.
        dram_w_per_emc_ghz, dram_pj_per_byte: Memory chips.
        loss_per_w: Loss of the regulators, per square watt of everything they feed.
    """

    base_w: float
    cpu_volts: Curve
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
    """Memory shared by all that runs.

    Attributes:
        total_mib: As the kernel reports it.
        reserved_mib: System, libraries (CUDA context), trainer and loaders before any data.
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
        rail: What the total is the power of, in words; a sum says of what.
        lag_s: Time constant of the readings.
        quantum_w: Step of the readings.
        ripple: Standard deviation over mean of the readings under a constant load.
        power_spread: The same of the means of repeated bursts (temperature).
        rails: The rails metered inside the total, by the name they are recorded under, and which of `CONSUMERS` each
            feeds.
    """

    rail: str
    lag_s: float
    quantum_w: float
    ripple: float
    power_spread: float
    rails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Protocol:
    """What a burst costs beside its window, in seconds."""

    setting_change_s: float
    warm_up_s: float
    first_step_s: float
