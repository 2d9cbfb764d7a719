"""The figures of a burst's power agree with what the host computes, and say when they cannot be told."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from devices.agent.power import Sample, figures, gap_reason, is_power_tight, longest_gap_s, stuck_reason
from devices.measurement import Estimate, Measurement, Status, fault, summarize_power


def series(watts: list[float], period_s: float = 0.1, begin_s: float = 50.0, **rails: float) -> list[Sample]:
    return [Sample(begin_s + i * period_s, w, dict(rails, VDD_IN=w)) for i, w in enumerate(watts)]


def autoregressive(count: int, r: float, seed: int) -> list[Sample]:
    """Samples of an AR(1) process about 8 W, at times that jitter."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=count)
    for i in range(1, count):
        noise[i] = r * noise[i - 1] + math.sqrt(1 - r * r) * noise[i]
    times_s = 1e5 + 0.1 * np.arange(count) + random.uniform(0, 0.05, size=count)
    return [
        Sample(float(t), float(8 + w), {"A": float(2 + w / 4), "TOTAL": float(8 + w)})
        for t, w in zip(times_s, noise, strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("r", [-0.3, 0.0, 0.6, 0.95])
@pytest.mark.parametrize("count", [2, 3, 21, 150])
def test_the_same_figures_as_on_the_host(count: int, r: float, seed: int) -> None:
    samples = autoregressive(count, r, seed)
    found = figures(samples, samples[0].time_s, samples[-1].time_s)
    host = summarize_power([s.time_s for s in samples], [s.total_w for s in samples])
    assert found["energy_j"] == pytest.approx(host.energy_j, rel=1e-9)
    for name, estimate in (("mean", host.mean), ("p95", host.p95), ("peak", host.peak)):
        assert found[f"power_{name}_w"] == pytest.approx(estimate.value, rel=1e-9)
        assert found[f"power_{name}_sem_w"] == pytest.approx(estimate.sem, rel=1e-6)
    rail = summarize_power([s.time_s for s in samples], [s.rails["A"] for s in samples])
    assert list(found["extra"]) == ["A_w"]  # the rail that is the total is not told twice
    assert found["extra"]["A_w"] == pytest.approx([rail.mean.value, rail.mean.sem], rel=1e-6)


def test_a_measurement_reads_them() -> None:
    samples = series([7.0, 7.5, 7.25] * 20, VDD_SOC=1.5)
    found = json.loads(json.dumps(figures(samples, 50.0, 55.9), allow_nan=False))
    measurement = Measurement.from_json({"status": "ok", "source": "measured", "throughput": 10.0, **found})
    assert measurement.status is Status.OK
    assert fault(measurement) is None
    assert measurement.power_mean_w == pytest.approx(7.25, abs=0.01)
    assert measurement.power_peak_w == 7.5
    assert dict(measurement.extra) == {"VDD_SOC_w": Estimate(pytest.approx(1.5), 0.0)}  # type: ignore[arg-type]


def test_edges_are_interpolated() -> None:
    samples = [Sample(float(t), 10.0 + t, {}) for t in range(5)]  # a ramp, sampled each second
    found = figures(samples, 0.5, 3.25)
    assert found["energy_j"] == pytest.approx((10.5 + 13.25) / 2 * 2.75)
    assert found["power_mean_w"] == pytest.approx((10.5 + 13.25) / 2)
    assert found["power_peak_w"] == 13.0  # samples inside the window only
    found = figures(samples[1:4], 0.5, 3.25)  # no neighbours outside: the nearest inside is held
    assert found["energy_j"] == pytest.approx(0.5 * 11 + (11 + 13) / 2 * 2 + 0.25 * 13)


def test_only_the_window_counts() -> None:
    samples = series([30.0] * 20 + [5.0] * 50 + [0.5] * 20)
    found = figures(samples, 52.05, 56.85, resolution_w=0.0)
    assert found["power_peak_w"] == 5.0
    assert found["power_p95_w"] == 5.0
    assert found["power_mean_w"] == pytest.approx(5.0)
    assert found["power_mean_sem_w"] == 0.0


def test_a_counter_gives_only_the_mean() -> None:
    found = figures(series([5.0, 6.0, 7.0]), 50.0, 50.2, ("mean",))
    assert sorted(found) == ["energy_j", "extra", "power_mean_sem_w", "power_mean_w"]


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_samples(count: int) -> None:
    samples = series([5.0] * count)
    assert figures(samples, 49.9, 50.3) == {}
    reason = gap_reason(samples, 49.9, 50.3)
    assert reason is not None
    assert f"holds {count} readings" in reason


def test_a_rail_that_could_not_be_read_all_the_time_is_left_out() -> None:
    samples = series([5.0, 6.0, 7.0], VDD_SOC=1.0)
    del samples[1].rails["VDD_SOC"]
    assert figures(samples, 50.0, 50.2)["extra"] == {}


def test_gaps() -> None:
    times_s = [1.0, 1.1, 1.7, 1.8]
    assert longest_gap_s(times_s, 1.0, 1.8) == pytest.approx(0.6)
    assert longest_gap_s(times_s, 1.7, 1.8) == pytest.approx(0.1)
    assert longest_gap_s(times_s, 0.0, 1.0) == pytest.approx(1.0)  # before the first
    assert longest_gap_s(times_s, 1.7, 4.0) == pytest.approx(2.2)  # after the last
    assert longest_gap_s([], 1.0, 3.0) == 2.0
    samples = [Sample(t, 5.0, {}) for t in times_s]
    assert gap_reason(samples, 1.65, 1.85) is None
    reason = gap_reason(samples, 1.0, 1.8)
    assert reason == "the power meter gave no value for 0.6 s of the window (at most 0.5 s may be missing)"
    assert gap_reason([], 1.0, 3.0) is not None


def test_when_a_window_is_long_enough() -> None:
    steady = autoregressive(400, 0.0, seed=1)
    assert not is_power_tight(steady[:30], 0.01)
    assert is_power_tight(steady[:30], 0.10)
    assert is_power_tight(steady, 0.02)
    assert not is_power_tight(autoregressive(400, 0.95, seed=1), 0.02)  # neighbours alike: far fewer values in truth
    assert not is_power_tight(series([5.0] * 19), 0.1)  # too few to know
    assert is_power_tight(series([5.0] * 20), 0.0, resolution_w=0.0)
    assert not is_power_tight([], 0.1)


@pytest.mark.parametrize(
    ("watts", "resolution_w", "step_w"),
    [
        ([5.0] * 60, None, 1.0),
        ([120.0] * 60, None, 1.0),
        ([5.1, 5.2] * 30, None, 0.1),
        ([5.25] * 60, None, 0.01),
        ([5.25] * 60, 0.04, 0.04),
        ([math.pi] * 60, None, 1e-6),
    ],
)
def test_no_figure_is_more_exact_than_the_steps_of_the_meter(
    watts: list[float], resolution_w: float | None, step_w: float
) -> None:
    samples = series(watts)
    found = figures(samples, 50.0, 55.9, resolution_w=resolution_w)
    least_w = step_w / math.sqrt(12)
    for name in ("mean", "p95", "peak"):
        assert found[f"power_{name}_sem_w"] >= least_w * (1 - 1e-9)
    if min(watts) == max(watts):
        assert found["power_mean_sem_w"] == pytest.approx(least_w)
    assert not is_power_tight(samples, 1.9 * least_w / max(watts), resolution_w)


def test_a_load_that_crosses_several_steps_is_averaged() -> None:
    samples = series([5.0, 6.0, 7.0, 6.0] * 1000)
    assert figures(samples, 50.0, 449.9)["power_mean_sem_w"] < 0.02


@pytest.mark.parametrize(
    ("watts", "lag_s", "moves", "resolution_w", "stuck"),
    [
        (7.056, 0.43, False, 0.04, True),
        (7.056, 0.43, True, 0.04, True),  # it froze in the warm-up
        (7.056, 0.0, True, 0.04, False),  # how often it has something new is not known
        (7.056, 0.0, False, 0.04, True),
        (5.0, 1.0, False, None, False),  # a plug in whole watts
        (60.0, 1.0, True, None, False),  # the same at a machine that draws more: ten values in the window
        (60.0, 1.0, False, None, True),
        (6.5, 1.0, False, None, True),
    ],
)
def test_a_meter_that_stands_still_is_told_from_a_coarse_one(
    watts: float, lag_s: float, moves: bool, resolution_w: float | None, stuck: bool
) -> None:
    samples = series([watts] * 105)
    reason = stuck_reason(samples, 50.0, 60.4, lag_s, moves, resolution_w)
    assert (reason is not None) == stuck
    if stuck:
        assert f"all 105 readings of the window are exactly {watts:g} W" in str(reason)
    samples[50] = samples[50]._replace(total_w=watts + 0.04)
    assert stuck_reason(samples, 50.0, 60.4, lag_s, moves, resolution_w) is None
    assert stuck_reason(series([watts] * 49), 50.0, 60.4, lag_s, False, resolution_w) is None
