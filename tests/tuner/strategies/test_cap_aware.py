"""The default strategy finds it in a few bursts, hardly ever breaks the cap, and knows when it is done."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, Knob, Setting
from devices.measurement import Measurement
from tests.tuner.strategies.searching import (
    BATCH,
    BOTH,
    CLOCK,
    FIVE,
    LIMIT,
    answer,
    board,
    limited_gpu,
    problem_with,
    search,
    toy,
    value,
)
from tests.tuner.toys import ToyDevice
from tuner import Study
from tuner.goal import GOALS, Goal
from tuner.outcome import Stopped
from tuner.testing import toy_measurement, toy_problem


class TestTheToy:
    @BOTH
    @pytest.mark.parametrize("cap_w", [6.0, 9.0, 12.0, 100.0, None])
    def test_finds_the_best_in_a_few_bursts(self, cap_w: float | None, goal: Goal) -> None:
        """Measured: 2 to 4 bursts until it is found, 2 to 8 in all, at most one above the cap."""
        problem = replace(toy_problem(clocks=8, batches=7, cap_w=cap_w), goal=goal)
        found = search(problem, toy)
        assert found.until <= 6
        assert len(found.trials) <= 10
        assert found.broken <= 2
        assert found.far <= 1

    @BOTH
    @pytest.mark.parametrize("cap_w", [6.0, 9.0])
    def test_a_record_is_searched_to_the_last_per_mille(self, cap_w: float, goal: Goal) -> None:
        """Measured: 5 or 6 bursts."""
        problem = replace(toy_problem(clocks=8, batches=7, cap_w=cap_w), goal=goal)
        found = search(problem, toy_measurement)
        assert len(found.trials) <= 9
        best = max(v for s in problem.space.settings if (v := value(problem, toy_measurement(s))) is not None)
        assert max(value(problem, t.measurement) or -math.inf for t in found.trials) >= best - 0.002

    def test_begins_at_a_low_clock_that_keeps_the_accelerator_busy(self) -> None:
        first = search(toy_problem(clocks=8, batches=7), toy, 1).trials[0].setting
        assert first == {"gpu_freq_mhz": 500, BATCH_KNOB: 16}

    def test_without_a_cap_it_begins_at_the_highest_clock(self) -> None:
        first = search(toy_problem(clocks=8, batches=7, cap_w=None), toy, 1).trials[0].setting
        assert first["gpu_freq_mhz"] == 1000

    def test_the_caution_is_what_keeps_it_below_the_cap(self) -> None:
        problem = toy_problem(clocks=12, batches=9, cap_w=9.0)
        cautious, careless = (search(problem, toy, 20, f"cap-aware{v}") for v in ("", ":no-mask"))
        assert cautious.broken < careless.broken or cautious.far < careless.far

    def test_the_budget_of_a_study_is_not_needed(self) -> None:
        """Measured: 5 to 7 bursts with confirmation, under noise of 2 %, over eight seeds."""
        device = ToyDevice(clocks=8, batches=7, noise=0.02)
        for seed in range(2):
            outcome = Study(device, "toy", cap_w=9.0, seed=seed).run()
            assert outcome.stopped is Stopped.CONVERGED
            assert len(outcome.trials) <= 14
            assert outcome.verdict.recommended is not None
            assert (toy_measurement(outcome.verdict.recommended.setting).power_mean_w or 99) <= 9.0 * 1.01


class TestOneKnob:
    @BOTH
    def test_the_batch_size_alone(self, goal: Goal) -> None:
        problem = problem_with(Knob(BATCH_KNOB, (1, 2, 4, 8, 16, 32, 64, 128)), cap_w=6.0, goal=goal)

        def measure(setting: Setting) -> Measurement:
            batch = setting[BATCH_KNOB]
            return answer(batch / (0.05 + 0.004 * batch), 4 + 3 * batch / (batch + 12))  # 16 holds 6 W, 32 does not

        found = search(problem, measure)
        assert found.until <= 5
        assert len(found.trials) <= 7
        assert found.broken <= 2

    @BOTH
    def test_a_clock_alone(self, goal: Goal) -> None:
        problem = problem_with(Knob("gpu_freq_mhz", tuple(range(200, 1400, 50))), cap_w=9.0, goal=goal)
        found = search(problem, lambda s: toy({**s, BATCH_KNOB: 8}))
        assert found.until <= 6
        assert len(found.trials) <= 9
        assert found.broken <= 2

    def test_a_limit_alone(self) -> None:
        problem = problem_with(LIMIT, cap_w=160.0)
        found = search(problem, limited_gpu)
        assert found.trials[0].setting["power_limit_w"] == 150  # the highest that is not above the cap
        assert found.until <= 3
        assert len(found.trials) <= 5
        assert found.far <= 1

    def test_threads_alone(self) -> None:
        problem = problem_with(Knob("cpu_threads", (1, 2, 3, 4)))
        found = search(problem, lambda s: answer(s["cpu_threads"] / (0.1 + 0.9), 5.0))
        assert found.until <= 2
        assert len(found.trials) <= 3

    def test_a_knob_nobody_knows(self) -> None:
        problem = problem_with(Knob("workers", (1, 2, 4, 8)))
        found = search(problem, lambda s: answer(50 * s["workers"] ** 0.3, 5.0))
        assert found.until <= 2
        assert len(found.trials) <= 4


class TestOtherSpaces:
    @BOTH
    def test_a_limit_and_the_batch_size(self, goal: Goal) -> None:
        problem = problem_with(LIMIT, Knob(BATCH_KNOB, (4, 8, 16, 32, 64, 128)), cap_w=180.0, goal=goal)
        found = search(problem, limited_gpu)
        assert found.until <= 5
        assert len(found.trials) <= 10
        assert found.far <= 1

    @BOTH
    def test_five_knobs(self, goal: Goal) -> None:
        """Measured: within 2 % after 6 to 9 of 420 settings."""
        found = search(problem_with(*FIVE, cap_w=7.0, goal=goal), board, 20)
        assert found.until <= 14
        assert found.broken <= 4
        assert found.far <= 2

    @pytest.mark.parametrize("cap_w", [5.2, 9.0, None])
    def test_two_settings(self, cap_w: float | None) -> None:
        problem = toy_problem(clocks=2, batches=1, cap_w=cap_w)
        found = search(problem, toy)
        assert found.until <= 2
        assert len(found.trials) <= 2

    @pytest.mark.parametrize("cap_w", [1.0, 9.0, None])
    def test_one_setting(self, cap_w: float | None) -> None:
        problem = toy_problem(clocks=1, batches=1, cap_w=cap_w)
        assert [t.setting for t in search(problem, toy).trials] == list(problem.space.settings)

    def test_a_power_that_does_not_depend_on_the_knobs(self) -> None:
        """Measured: it climbs to the highest clock one step a burst, 6 in all."""
        problem = problem_with(CLOCK, BATCH, cap_w=6.5)
        found = search(problem, lambda s: replace(toy(s), power_mean_w=6.0, power_mean_sem_w=0.06))
        assert found.until <= 8
        assert len(found.trials) <= 10
        assert found.broken == 0

    def test_a_time_that_does_not_depend_on_the_clock(self) -> None:
        """Bound by memory: the lowest clock is as fast, and uses the least energy."""
        problem = problem_with(CLOCK, BATCH, cap_w=9.0, goal=GOALS["energy"])
        found = search(problem, lambda s: answer(1000 * s[BATCH_KNOB] / (20 + s[BATCH_KNOB]), 3 + s[CLOCK.name] / 200))
        assert found.until <= 6
        assert len(found.trials) <= 10


class TestCaps:
    def test_above_everything_it_does_not_matter(self) -> None:
        """Measured: the best is found with the second burst; a cap that cannot bind costs the start at a low clock."""
        capped, free = (search(toy_problem(clocks=8, batches=7, cap_w=w), toy) for w in (1000.0, None))
        assert capped.until <= free.until + 1
        assert len(capped.trials) <= len(free.trials) + 2

    @BOTH
    @pytest.mark.parametrize("cap_w", [0.5, 4.0])
    def test_far_below_everything_it_ends_in_a_few_bursts(self, cap_w: float, goal: Goal) -> None:
        """The toy draws 5.1 W at least. Measured: 4 bursts."""
        outcome = Study(ToyDevice(clocks=8, batches=7, noise=0.01), "toy", goal=goal.name, cap_w=cap_w).run()
        assert outcome.stopped is Stopped.INFEASIBLE
        assert len(outcome.trials) <= 6
        assert outcome.verdict.recommended is None

    def test_one_that_hardly_anything_holds(self) -> None:
        """At 5.2 W the toy's three smallest batch sizes at its lowest clock alone hold it."""
        found = search(toy_problem(clocks=8, batches=7, cap_w=5.2), toy)
        assert found.until <= 10
        assert len(found.trials) <= 14


class TestBelowEverything:
    @pytest.mark.parametrize("cap_w", [2.0, 4.5, 4.9])
    def test_it_says_so_after_a_few_bursts(self, cap_w: float) -> None:
        outcome = Study(ToyDevice(clocks=8, batches=7, noise=0.01), "toy", cap_w=cap_w).run()
        assert outcome.stopped is Stopped.INFEASIBLE
        assert len(outcome.trials) <= 12

    def test_it_goes_down_at_once(self) -> None:
        trials = search(toy_problem(clocks=8, batches=7, cap_w=2.0), toy, 3).trials
        watts = [t.measurement.power_mean_w or 0 for t in trials if t.measurement]
        assert max(watts[1:]) < watts[0]
