"""The state of a burst, fed with made-up steps."""

from __future__ import annotations

import random

import pytest

from devices.agent.burst import WARM_UP_LIMIT, Burst, Lengths

PLAN = {"min_s": 1.0, "max_s": 5.0, "tolerance": 0.05}


def feed(burst: Burst, durations: list[float], start: float = 100.0) -> int:
    """Add steps one by one until the burst is done; how many were taken."""
    end = start
    for count, duration in enumerate(durations, 1):
        end += duration
        burst.add([(end, duration)])
        if burst.phase == "done":
            return count
    return len(durations)


def noisy(step_s: float, cv: float, count: int, seed: int = 0) -> list[float]:
    generator = random.Random(seed)
    return [step_s * max(generator.gauss(1, cv), 0.1) for _ in range(count)]


def test_lengths_with_and_without_a_meter() -> None:
    assert Lengths.of({**PLAN, "min_s": 10.0, "max_s": 20.0}, metered=True).warm_up_s == 3.0
    lengths = Lengths.of(PLAN, metered=False)
    assert (lengths.warm_up_s, lengths.warm_up_max_s) == (0.5, 0.5 * WARM_UP_LIMIT)


def test_a_steady_series_ends_as_soon_as_it_is_tight() -> None:
    burst = Burst(Lengths.of(PLAN, metered=False), 16)
    taken = feed(burst, noisy(0.01, 0.02, 2000))
    figures = burst.figures()
    assert burst.steady
    assert 200 < taken < 400  # a second or more of warm-up, a second of window
    assert figures["throughput"] == pytest.approx(1600, rel=0.01)
    assert figures["samples"] == 16 * round(figures["duration_s"] / figures["step_time_s"])
    assert figures["duration_s"] >= 1.0
    assert figures["throughput_sem"] > 0


def test_standard_errors_are_true_for_windows_that_end_when_they_look_tight() -> None:
    """Correlated step times (first order, 0.9): 90 % intervals of whole bursts, not of windows of fixed length."""
    held, bursts = 0, 200
    for seed in range(bursts):
        generator, x, durations = random.Random(seed), 0.0, []
        for _ in range(1500):
            x = 0.9 * x + 0.1 * (1 - 0.81) ** 0.5 * generator.gauss(0, 1)
            durations.append(0.01 * (1 + x))
        burst = Burst(Lengths(0.0, 0.0, 1.0, 5.0, 0.05), 1)
        feed(burst, durations)
        figures = burst.figures()
        held += abs(figures["throughput"] - 100) <= 1.645 * figures["throughput_sem"]
    assert 0.8 <= held / bursts <= 0.97


def test_the_first_step_never_counts() -> None:
    burst = Burst(Lengths.of(PLAN, metered=False), 1)
    feed(burst, [1.5, *noisy(0.01, 0.01, 2000)])
    assert burst.figures()["throughput"] == pytest.approx(100, rel=0.01)


def test_the_warm_up_is_left_out() -> None:
    slow = [0.01 * (1 + 2 * 0.9**i) for i in range(100)]
    burst = Burst(Lengths.of({**PLAN, "min_s": 1.0}, metered=False), 1)
    feed(burst, slow + noisy(0.01, 0.01, 2000))
    assert burst.figures()["throughput"] == pytest.approx(100, rel=0.02)


def test_a_series_that_never_settles_is_measured_with_its_width() -> None:
    drift = [0.01 * 1.002**i for i in range(3000)]
    burst = Burst(Lengths.of(PLAN, metered=False), 1)
    feed(burst, drift)
    figures = burst.figures()
    assert not burst.steady
    assert figures["duration_s"] >= PLAN["max_s"]
    assert figures["throughput_sem"] > 0.03 * figures["throughput"]


def test_a_noisy_series_lasts_as_long_as_it_may() -> None:
    burst = Burst(Lengths.of(PLAN, metered=False), 1)
    feed(burst, noisy(0.05, 0.8, 3000))
    assert 5.0 <= burst.figures()["duration_s"] < 5.3


@pytest.mark.parametrize("step_s", [3.0, 40.0])
def test_steps_longer_than_the_burst_are_still_measured(step_s: float) -> None:
    burst = Burst(Lengths.of(PLAN, metered=False), 256)
    assert feed(burst, [step_s] * 10) <= 4
    figures = burst.figures()
    assert figures["throughput"] == pytest.approx(256 / step_s)
    assert figures["throughput_sem"] == pytest.approx(0.05 * figures["throughput"])  # assumed: too few steps to know


def test_slowing_down_within_the_window_is_seen() -> None:
    burst = Burst(Lengths(0.0, 0.0, 2.0, 2.0, 0.0), 1)
    feed(burst, [0.01] * 100 + [0.011] * 200)
    assert burst.slowed() == pytest.approx(0.1, abs=0.01)
    steady = Burst(Lengths(0.0, 0.0, 2.0, 2.0, 0.0), 1)
    feed(steady, [0.01] * 300)
    assert steady.slowed() == pytest.approx(0.0)


def test_nothing_before_the_first_step_of_the_window() -> None:
    burst = Burst(Lengths.of(PLAN, metered=False), 1)
    assert burst.figures() == {}
    assert burst.rate() is None
    burst.add([(1.0, 0.1)])
    assert burst.figures() == {}
