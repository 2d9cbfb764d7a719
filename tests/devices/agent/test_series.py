"""The statistics of step times: on recorded series, and on synthetic ones whose truth is known."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from devices.agent.series import Rate, is_steady, is_tight, mean_sem, rate, with_burst_spread

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "step_times.json").read_text())
RECORDED_SPREAD = 0.06  # how far the recorded bursts lie apart, relative
STEP_S = (0.001, 0.01, 0.1, 0.3)

Series = npt.NDArray[np.float64]


def first_steady(durations_s: list[float], every_s: float = 0.25) -> float:
    """When a caller that asks every quarter of a second first hears that the series is steady; infinite if never."""
    elapsed = asked = 0.0
    for i, duration in enumerate(durations_s, 1):
        elapsed += duration
        if elapsed - asked >= every_s:
            asked = elapsed
            if is_steady(durations_s[:i]):
                return elapsed
    return math.inf


def made(
    step_s: float, seconds: float, shape: Callable[[float], float], noise: Callable[[], float] = lambda: 1.0
) -> list[float]:
    """Step times of `step_s` times `shape` of the elapsed time, times noise."""
    durations = []
    elapsed = 0.0
    while elapsed < seconds:
        durations.append(step_s * shape(elapsed) * noise())
        elapsed += durations[-1]
    return durations


def flat(_: float) -> float:
    return 1.0


def warm_up(tau_s: float) -> Callable[[float], float]:
    return lambda elapsed: 1 + 0.5 * math.exp(-elapsed / tau_s)


def gauss(seed: int, relative: float) -> Callable[[], float]:
    generator = random.Random(seed)
    return lambda: generator.gauss(1, relative)


def hiccups(period: int, factor: float) -> Callable[[], float]:
    steps: Iterator[int] = iter(range(10**9))
    return lambda: factor if next(steps) % period == period // 2 else 1.0


# --- is_steady ---


@pytest.mark.parametrize("step_s", STEP_S)
def test_a_constant_series_is_steady_after_16_steps_and_a_second(step_s: float) -> None:
    needed = max(16, round(1 / step_s))
    assert is_steady([step_s] * (needed + 1))
    assert not is_steady([step_s] * (needed - 1))


@pytest.mark.parametrize("tau_s", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("step_s", STEP_S)
def test_a_warm_up_is_waited_for(step_s: float, tau_s: float) -> None:
    steady_s = first_steady(made(step_s, 20, warm_up(tau_s)))
    assert 0.5 * math.exp(-steady_s / tau_s) < 0.025
    assert steady_s < max(6 * tau_s, 20 * step_s)


@pytest.mark.parametrize(("step_s", "relative"), [(0.01, 0.02), (0.01, 0.05), (0.1, 0.02), (0.1, 0.05), (0.3, 0.05)])
def test_noise_does_not_hide_a_warm_up(step_s: float, relative: float) -> None:
    ends = [first_steady(made(step_s, 20, warm_up(3), gauss(seed, relative))) for seed in range(20)]
    assert sum(0.5 * math.exp(-s / 3) > 0.03 for s in ends) <= 4, ends
    assert sum(0.5 * math.exp(-s / 3) > 0.05 for s in ends) <= 1, ends
    assert max(ends) < 19


def test_noise_with_a_memory_does_not_hide_it_either() -> None:
    """Blocks of steps whose noise lasts longer than a block scatter little and differ much."""
    early = 0
    for seed in range(20):
        generator = random.Random(seed)
        level = [0.0]

        def noise(generator: random.Random = generator, level: list[float] = level) -> float:
            level[0] = 0.95 * level[0] + generator.gauss(0, 0.03 * math.sqrt(1 - 0.95**2))
            return 1 + level[0]

        steady_s = first_steady(made(0.01, 20, warm_up(3), noise))
        early += 0.5 * math.exp(-steady_s / 3) > 0.05
    assert early <= 6


@pytest.mark.parametrize("step_s", STEP_S)
@pytest.mark.parametrize("period", [10, 50])
@pytest.mark.parametrize("factor", [3.0, 10.0])
def test_periodic_hiccups_do_not_hold_it_up(step_s: float, period: int, factor: float) -> None:
    jitter = gauss(1, 0.01)
    pulse = hiccups(period, factor)
    steady_s = first_steady(made(step_s, 60 if step_s > 0.1 else 16, flat, lambda: pulse() * jitter()))
    assert steady_s < (3 if step_s < 0.1 else 100 * step_s)


@pytest.mark.parametrize("tail", ["lognormal", "pareto"])
@pytest.mark.parametrize("step_s", [0.003, 0.03, 0.3])
def test_heavy_tails_are_not_waited_for_without_end(tail: str, step_s: float) -> None:
    for seed in range(5):
        generator = random.Random(seed)

        def noise(generator: random.Random = generator) -> float:
            return generator.lognormvariate(0, 0.5) if tail == "lognormal" else generator.paretovariate(2.0)

        assert first_steady(made(step_s, 40, flat, noise)) < 25


@pytest.mark.parametrize("seconds", [5, 30, 120, 400])
def test_a_slow_drift_is_steady(seconds: float) -> None:
    assert is_steady(made(0.1, seconds, lambda elapsed: 1 + 0.05 * elapsed / 60))


def test_very_slow_steps_are_judged_by_their_number() -> None:
    assert is_steady([30.0] * 40)
    assert not is_steady([30.0] * 24 + [29.0] * 8 + [27.0] * 8)


def test_a_fast_drift_is_not_steady() -> None:
    assert not is_steady(made(0.1, 60, lambda elapsed: 1 + 0.5 * elapsed / 60))


def test_patience_still_sees_what_noise_does_not_hide() -> None:
    for seed in range(5):
        noise = gauss(seed, 0.05)
        assert not is_steady([0.1 * noise() for _ in range(150)] + [0.106 * noise() for _ in range(50)])


def test_a_step_in_the_latter_half_is_not_steady() -> None:
    assert not is_steady([0.01] * 300 + [0.0106] * 100)
    assert is_steady([0.02] * 300 + [0.01] * 300)  # over since the first half


def test_a_recorded_cold_start() -> None:
    """13 steps of 0.33 s, then 25 ms."""
    durations = RECORDED["cold_start"]
    assert not any(is_steady(durations[:n]) for n in range(40))
    assert is_steady(durations)
    assert 4.5 < first_steady(durations) < 7


def test_a_recorded_steady_series() -> None:
    assert 1 < first_steady(RECORDED["steady"]) < 4


def test_recorded_hiccups() -> None:
    """Neither does it last for ever, nor is a noise of 3 % passed over in the first seconds."""
    durations = RECORDED["hiccups"]
    assert 2 < first_steady(durations * 4) < 15


@pytest.mark.parametrize("durations", [[], [1.0], [1.0] * 15, [0.01] * 99])
def test_too_short_is_not_steady(durations: list[float]) -> None:
    assert not is_steady(durations)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1])
def test_impossible_durations_are_refused(bad: float) -> None:
    durations = [0.1] * 20 + [bad] + [0.1] * 20
    with pytest.raises(ValueError, match="negative or not finite"):
        is_steady(durations)
    with pytest.raises(ValueError, match="negative or not finite"):
        rate(durations)


def test_zero_durations_of_a_coarse_clock() -> None:
    durations = [0.0, 0.2] * 20
    assert rate(durations).value == pytest.approx(10)
    assert is_steady([0.0, 0.0, 0.003] * 1000)
    assert not is_steady([0.0] * 100)


# --- rate ---


def test_rate_of_a_constant_series() -> None:
    assert rate([0.25] * 20) == Rate(value=4.0, sem=0.0, steps=20, seconds=5.0)


def test_rate_is_steps_by_seconds_not_a_mean_of_rates() -> None:
    assert rate([0.1, 0.3]).value == pytest.approx(5)
    hiccup = RECORDED["hiccups"]
    assert rate(hiccup).value == pytest.approx(400 / sum(hiccup))
    assert rate(hiccup).value < 0.9 / np.median(hiccup)


def test_rate_has_the_relative_error_of_the_mean_step_time() -> None:
    durations = [0.1, 0.12, 0.09, 0.13, 0.1, 0.08, 0.11]
    found, sem = rate(durations), mean_sem(durations)
    assert found.sem is not None
    assert sem is not None
    assert found.sem / found.value == pytest.approx(sem / np.mean(durations))


@pytest.mark.parametrize("durations", [[0.1], [0.1, 0.2]])
def test_the_error_of_one_or_two_steps_is_not_known(durations: list[float]) -> None:
    assert rate(durations).sem is None
    assert rate(durations).steps == len(durations)
    assert not is_tight(rate(durations), 10.0)


@pytest.mark.parametrize("durations", [[], [0.0], [0.0] * 5])
def test_no_time_has_no_rate(durations: list[float]) -> None:
    with pytest.raises(ValueError, match="steps that took time"):
        rate(durations)


def test_recorded_rates() -> None:
    steady, cold = rate(RECORDED["steady"][40:]), rate(RECORDED["cold_start"])
    assert steady.value == pytest.approx(52.6, rel=0.02)
    assert steady.sem is not None
    assert 0.002 < steady.sem / steady.value < 0.04
    assert cold.sem is not None
    assert cold.sem > 0.3 * cold.value  # a window with a warm-up in it does not look exact


# --- mean_sem ---

GENERATOR_SEED = 7


def white(generator: np.random.Generator, shape: tuple[int, int]) -> Series:
    return generator.normal(1, 0.1, shape)


def autoregressive(phi: float) -> Callable[[np.random.Generator, tuple[int, int]], Series]:
    def generate(generator: np.random.Generator, shape: tuple[int, int]) -> Series:
        values = generator.normal(0, 1, shape)
        values[:, 0] /= math.sqrt(1 - phi * phi)
        for i in range(1, shape[1]):
            values[:, i] += phi * values[:, i - 1]
        return 1 + 0.1 * values

    return generate


def lognormal(generator: np.random.Generator, shape: tuple[int, int]) -> Series:
    values: Series = np.exp(generator.normal(-0.125, 0.5, shape))
    return values


def rare(generator: np.random.Generator, shape: tuple[int, int]) -> Series:
    """Hiccups at random: one step in ten takes five times as long."""
    return (generator.normal(1, 0.05, shape) + 4 * (generator.random(shape) < 0.1)) / 1.4


def periodic(generator: np.random.Generator, shape: tuple[int, int]) -> Series:
    phase = generator.integers(0, 10, (shape[0], 1))
    values: Series = (generator.normal(1, 0.05, shape) + 4 * ((np.arange(shape[1]) + phase) % 10 == 0)) / 1.4
    return values


def coverage(
    generate: Callable[[np.random.Generator, tuple[int, int]], Series], steps: int, repetitions: int = 600
) -> float:
    """How often mean +- 1.645 sem covers the true mean, 1."""
    series = generate(np.random.default_rng(GENERATOR_SEED), (repetitions, steps))
    hits = 0
    for row in series.tolist():
        sem = mean_sem(row)
        assert sem is not None
        hits += abs(sum(row) / steps - 1) <= 1.645 * sem
    return hits / repetitions


@pytest.mark.parametrize("steps", [5, 10, 20])
def test_coverage_of_short_series(steps: int) -> None:
    assert 0.87 <= coverage(white, steps, 1500) <= 0.96
    assert 0.82 <= coverage(autoregressive(0.3), steps, 1500) <= 0.95


@pytest.mark.parametrize("steps", [50, 200, 1000])
def test_coverage(steps: int) -> None:
    assert 0.88 <= coverage(white, steps) <= 0.96
    assert 0.88 <= coverage(autoregressive(0.3), steps) <= 0.96
    assert 0.85 <= coverage(autoregressive(0.6), steps) <= 0.96
    assert 0.86 <= coverage(lognormal, steps) <= 0.96
    assert 0.85 <= coverage(rare, steps) <= 0.96


@pytest.mark.parametrize(("steps", "least"), [(50, 0.76), (200, 0.83), (1000, 0.86)])
def test_coverage_with_a_long_memory(steps: int, least: float) -> None:
    """Fifty steps with phi = 0.9 are worth 2.6 independent ones: there the intervals stay somewhat short."""
    assert least <= coverage(autoregressive(0.9), steps) <= 0.95


def test_strictly_periodic_hiccups_are_on_the_safe_side() -> None:
    for steps in (50, 200, 1000):
        assert coverage(periodic, steps, 200) >= 0.88


def test_a_drift_makes_the_error_larger() -> None:
    noise = np.random.default_rng(3).normal(1, 0.02, 300)
    level, drifting = mean_sem(noise.tolist()), mean_sem((noise + np.linspace(-0.05, 0.05, 300)).tolist())
    assert level is not None
    assert drifting is not None
    assert drifting > 10 * level


def test_the_error_falls_with_the_length() -> None:
    def typical(steps: int) -> float:
        rows = white(np.random.default_rng(1), (200, steps)).tolist()
        return float(np.mean([mean_sem(row) for row in rows]))

    assert typical(100) / typical(1600) == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("count", [3, 4, 11, 12, 13, 23, 24, 25, 5000])
def test_every_length_has_an_error(count: int) -> None:
    sem = mean_sem([0.1 + 0.01 * (i % 2) + 0.001 * (i % 3) for i in range(count)])
    assert sem is not None
    assert 0 <= sem < 0.02


def test_errors_of_no_value() -> None:
    assert mean_sem([]) is None
    assert mean_sem([1.0]) is None
    assert mean_sem([1.0, 2.0]) is None
    assert mean_sem([2.0] * 7) == 0


# --- the decision, and the spread from burst to burst ---


def test_tight_is_a_95_percent_interval() -> None:
    assert is_tight(Rate(100.0, 1.0, 50, 0.5), 0.0197)
    assert not is_tight(Rate(100.0, 1.0, 50, 0.5), 0.0195)
    assert is_tight(Rate(100.0, 0.0, 50, 0.5), 0.0)


def test_the_spread_is_added_in_squares() -> None:
    assert with_burst_spread(Rate(100.0, 3.0, 50, 0.5), 0.04).sem == pytest.approx(5.0)
    assert with_burst_spread(Rate(100.0, 3.0, 50, 0.5), 0.04)[::2] == (100.0, 50)
    assert with_burst_spread(Rate(100.0, 3.0, 50, 0.5), 0.0).sem == pytest.approx(3.0)
    assert with_burst_spread(Rate(100.0, None, 2, 0.5), 0.04).sem is None


def test_single_bursts_cover_the_long_run_mean_only_with_the_spread() -> None:
    """Ten recorded processes: what the window sees is not all."""
    bursts = [Rate(value, sem, 1, 1.0) for value, sem in RECORDED["bursts"]]
    long_run = RECORDED["bursts_mean"]

    def covered(rates: list[Rate]) -> float:
        return float(np.mean([abs(r.value - long_run) <= 1.645 * (r.sem or 0) for r in rates]))

    assert covered(bursts) < 0.6
    assert 0.8 <= covered([with_burst_spread(r, RECORDED_SPREAD) for r in bursts]) <= 0.97
    assert covered([with_burst_spread(r, RECORDED_SPREAD / 3) for r in bursts]) < 0.8
