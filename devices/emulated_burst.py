"""A burst in virtual time: steps that vary, a meter that lags, the guard, and what is reported in the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from devices.catalog import Board, Meter
from devices.device import BurstPlan
from devices.measurement import Estimate, Measurement, Status, summarize_power
from devices.physics import Clocks, Load, OperatingPoint, Rails, interpolate, rails

READING_PERIOD_S = 0.1
GUARD_MARGIN = 0.10  # power this far above the cap ends the burst ...
GUARD_PATIENCE_S = 2.0  # ... when it stays there for longer than this
P95_SIGMAS = 1.645  # 95th percentile of a normal distribution
PEAK_SIGMAS = 2.3  # mean of the highest of the correlated readings of a 15 s window, by simulation
INTERVAL_SIGMAS = 1.96  # half-width of a 95 % interval


@dataclass(frozen=True)
class _Part:
    """The part of a burst that is reported: readings `first` to `last`, and the steps between them."""

    status: Status
    reason: str | None
    first: int
    last: int
    steps: float
    duration_s: float
    elapsed_s: float


def simulate_burst(
    board: Board,
    clocks: Clocks,
    point: OperatingPoint,
    batch_size: int,
    plan: BurstPlan,
    generator: np.random.Generator,
) -> Measurement:
    """Warm-up and window of a burst at an operating point; its cost leaves out what came before the warm-up."""
    meter, warm_up_s, burst_spread = board.meter, board.protocol.warm_up_s, board.timing.burst_spread
    step_cv = interpolate(board.timing.step_cv, clocks.cpu_freq_mhz)
    steps = _window_steps(board, point.step_time_s, step_cv, plan)
    time_sem = math.hypot(step_cv / math.sqrt(steps), burst_spread)  # relative
    # Bounded below: three standard errors of the noisiest window must not turn the time negative.
    step_time_s = point.step_time_s * max(1 + time_sem * float(generator.standard_normal()), 0.5)
    window_s = steps * step_time_s
    if meter is None:
        return Measurement(
            Status.OK,
            "emulated",
            throughput=batch_size / step_time_s,
            throughput_sem=batch_size / step_time_s * time_sem,
            step_time_s=step_time_s,
            duration_s=window_s,
            samples=steps * batch_size,
            cost_s=warm_up_s + window_s,
        )
    readings_w = _readings(board, meter, clocks, point, warm_up_s + window_s, generator)

    cap_w = math.inf if plan.cap_w is None else plan.cap_w
    tripped = _guard_trip(readings_w, cap_w)
    if tripped is None:
        first = math.ceil(warm_up_s / READING_PERIOD_S)
        part = _Part(Status.OK, None, first, len(readings_w) - 1, steps, window_s, warm_up_s + window_s)
    else:
        # From the moment the meter has settled, not only the stretch picked out for being high.
        first = min(math.ceil(3 * meter.lag_s / READING_PERIOD_S), tripped - _patience_readings())
        seconds = (tripped - first) * READING_PERIOD_S
        reason = f"more than {GUARD_MARGIN:.0%} above the cap of {cap_w:g} W for {GUARD_PATIENCE_S:g} s"
        part_steps = seconds / step_time_s
        time_sem = math.hypot(step_cv / math.sqrt(max(part_steps, 1.0)), burst_spread)
        part = _Part(Status.OVER_CAP, reason, first, tripped, part_steps, seconds, tripped * READING_PERIOD_S)

    time_s = np.arange(len(readings_w)) * READING_PERIOD_S
    shown = slice(part.first, part.last + 1)
    power = summarize_power(time_s[shown], readings_w[shown])
    throughput = batch_size / step_time_s
    mean_w = power.mean.value

    def sem_w(estimate: Estimate) -> float:
        """What the window shows, and what only other bursts would show."""
        return math.hypot(estimate.sem, meter.power_spread * mean_w)

    relative = mean_w / point.rails.total_w
    return Measurement(
        part.status,
        "emulated",
        reason=part.reason,
        throughput=throughput,
        throughput_sem=throughput * time_sem,
        step_time_s=step_time_s,
        power_mean_w=mean_w,
        power_mean_sem_w=sem_w(power.mean),
        power_p95_w=power.p95.value,
        power_p95_sem_w=sem_w(power.p95),
        power_peak_w=power.peak.value,
        power_peak_sem_w=sem_w(power.peak),
        energy_per_sample_j=mean_w / throughput,
        energy_j=mean_w * part.duration_s,
        duration_s=part.duration_s,
        samples=part.steps * batch_size,
        cost_s=part.elapsed_s,
        cost_j=float(readings_w[: part.last + 1].mean()) * part.elapsed_s,
        extra=inner_rails(meter, point.rails, relative, sem_w(power.mean) / point.rails.total_w),
    )


def expected_measurement(board: Board, point: OperatingPoint, batch_size: int) -> Measurement:
    """What `simulate_burst` finds on average, with standard errors 0."""
    throughput = batch_size / point.step_time_s
    speed = Measurement(Status.OK, "emulated", throughput=throughput, throughput_sem=0.0, step_time_s=point.step_time_s)
    if board.meter is None:
        return speed
    ripple, total_w = board.meter.ripple, point.rails.total_w
    return replace(
        speed,
        power_mean_w=total_w,
        power_mean_sem_w=0.0,
        power_p95_w=total_w * (1 + P95_SIGMAS * ripple),
        power_p95_sem_w=0.0,
        power_peak_w=total_w * (1 + PEAK_SIGMAS * ripple),
        power_peak_sem_w=0.0,
        energy_per_sample_j=total_w / throughput,
        extra=inner_rails(board.meter, point.rails, 1.0, 0.0),
    )


def inner_rails(meter: Meter, rails: Rails, relative: float, relative_sem: float) -> dict[str, Estimate]:
    """The rails metered inside the total, which follow its deviation from the model."""
    watts = {name: rails.of(consumers) for name, consumers in meter.rails.items()}
    return {name: Estimate(rail_w * relative, rail_w * relative_sem) for name, rail_w in watts.items()}


def _window_steps(board: Board, step_time_s: float, step_cv: float, plan: BurstPlan) -> int:
    """Whole steps until throughput and power are expected within the tolerance, between the plan's bounds."""
    sigmas = INTERVAL_SIGMAS / plan.tolerance
    time_wanted_s = step_time_s * (sigmas * step_cv) ** 2
    meter = board.meter
    # Readings through a first-order lag are correlated over twice its time constant.
    power_wanted_s = 2 * meter.lag_s * (sigmas * meter.ripple) ** 2 if meter is not None else 0.0
    window_s = min(max(plan.min_s, time_wanted_s, power_wanted_s), plan.max_s)
    return max(round(window_s / step_time_s), 1)


def _readings(
    board: Board, meter: Meter, clocks: Clocks, point: OperatingPoint, burst_s: float, generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Readings in watts, one a `READING_PERIOD_S` from the start of the load: shape (n,).

    The meter is a first-order low-pass: the step of the load arrives as 1 - exp(-t / lag), and the ripple, white at
    the source, as an autoregressive process of the same time constant.
    """
    count = max(math.floor(burst_s / READING_PERIOD_S), math.ceil(board.protocol.warm_up_s / READING_PERIOD_S) + 2) + 1
    settled_w = point.rails.total_w * (1 + meter.power_spread * float(generator.standard_normal()))
    before_w = rails(board, clocks, Load()).total_w
    lag = math.exp(-READING_PERIOD_S / meter.lag_s)
    white = generator.standard_normal(count)
    ripple = np.empty(count)
    ripple[0] = white[0]
    for i in range(1, count):
        ripple[i] = lag * ripple[i - 1] + math.sqrt(1 - lag**2) * white[i]
    level_w = settled_w + (before_w - settled_w) * lag ** np.arange(count)
    readings_w = level_w * (1 + meter.ripple * ripple)
    rounded: npt.NDArray[np.float64] = np.round(readings_w / meter.quantum_w) * meter.quantum_w
    return rounded


def _patience_readings() -> int:
    return round(GUARD_PATIENCE_S / READING_PERIOD_S)


def _guard_trip(readings_w: npt.NDArray[np.float64], cap_w: float) -> int | None:
    """Index of the reading at which the guard ends the burst, or None."""
    since = 0  # readings in a row above the limit
    for index, reading_w in enumerate(readings_w):
        since = since + 1 if reading_w > cap_w * (1 + GUARD_MARGIN) else 0
        if since > _patience_readings():
            return index
    return None
