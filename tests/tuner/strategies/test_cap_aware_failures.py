"""The default strategy where bursts fail, priors are wrong and power does not depend on the setting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, BurstPlan, Knob, Setting
from devices.measurement import Measurement, Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from devices.replay import ReplayDevice
from tests.tuner.strategies.searching import BATCH, CLOCK, LIMIT, answer, problem_with, search, toy, value
from tests.tuner.toys import ToyDevice, failed
from tuner import Study
from tuner.outcome import Outcome, Stopped
from tuner.recommend import judge
from tuner.strategies.cap_aware import CapAwareStrategy
from tuner.strategies.proposal import excess
from tuner.testing import toy_measurement, toy_problem
from tuner.trial import Trial, TrialState


class TestFailures:
    @pytest.mark.parametrize("oom_from", [2, 8, 64])
    def test_out_of_memory_bounds_the_batch_at_once(self, oom_from: float) -> None:
        problem = toy_problem(clocks=6, batches=9, cap_w=9.0)
        trials = search(problem, lambda s: toy_measurement(s, sem=0.01, oom_from=oom_from)).trials
        bound, full = math.inf, 0
        for trial in trials:
            assert trial.setting[BATCH_KNOB] < bound
            if trial.status is Status.OOM:
                bound, full = trial.setting[BATCH_KNOB], full + 1
        assert full <= 4
        assert any(trial.valid for trial in trials)

    def test_after_failures_it_begins_with_less(self) -> None:
        problem = toy_problem(clocks=6, batches=9)
        crash = Measurement(Status.CRASHED, "emulated", reason="toy crash")
        trials = search(problem, lambda _: crash, 4).trials
        assert trials[1].setting[BATCH_KNOB] < trials[0].setting[BATCH_KNOB]
        assert len({problem.space.key(trial.setting) for trial in trials}) == 4

    @pytest.mark.parametrize("status", [Status.CRASHED, Status.TIMEOUT, Status.THROTTLED])
    def test_a_setting_that_fails_is_not_tried_again(self, status: Status) -> None:
        """Clocks of 500 MHz and 600 MHz fail at every batch size; what holds the cap below is found all the same."""
        problem = toy_problem(clocks=5, batches=5, cap_w=9.0)

        def measure(setting: Setting) -> Measurement:
            return failed(status) if setting["gpu_freq_mhz"] in (500, 600) else toy(setting)

        found = search(problem, measure, 30)
        keys = [problem.space.key(trial.setting) for trial in found.trials]
        assert len(set(keys)) == len(keys)
        assert found.until <= len(problem.space)

    @pytest.mark.parametrize("cap_w", [4.0, 5.0, 6.0])
    def test_a_cap_below_the_board_ends_at_the_lowest_clock(self, cap_w: float) -> None:
        with Study("jetson-orin", cap_w=cap_w) as study:
            outcome = study.run()
        assert outcome.stopped is Stopped.INFEASIBLE
        assert {trial.setting["gpu_freq_mhz"] for trial in outcome.trials[1:]} == {306}

    def test_one_that_fails_everywhere_is_given_up_with_the_space(self) -> None:
        problem = toy_problem(clocks=2, batches=3)
        found = search(problem, lambda _: failed(Status.CRASHED), 30)
        assert len(found.trials) == len(problem.space)

    def test_bursts_that_the_guard_ends_are_learnt_from(self) -> None:
        problem = toy_problem(clocks=8, batches=7, cap_w=7.0)

        def measure(setting: Setting) -> Measurement:
            found = toy(setting)
            if (found.power_mean_w or 0) <= 7.0:
                return found
            return Measurement(Status.OVER_CAP, "emulated", power_mean_w=found.power_mean_w, cost_s=4.0)

        found = search(problem, measure)
        assert found.until <= 8
        assert found.broken <= 3
        for i, trial in enumerate(found.trials):
            for later in found.trials[i + 1 :]:  # power rises with the clock
                above = later.setting[BATCH_KNOB] == trial.setting[BATCH_KNOB] and (
                    later.setting["gpu_freq_mhz"] >= trial.setting["gpu_freq_mhz"]
                )
                assert not (above and (excess(problem, trial) or 0) > 0.01)

    def test_clocks_above_one_that_broke_the_cap_are_left_alone_however_poor_the_meter(self) -> None:
        problem = toy_problem(clocks=8, batches=2, cap_w=7.0)

        def measure(setting: Setting) -> Measurement:
            return toy_measurement(setting, sem=0.3)

        trials: list[Trial] = []
        while len(trials) < 16 and (asked := CapAwareStrategy().suggest(problem, trials).settings):
            for trial in trials:
                broken = (excess(problem, trial) or 0) > 0.01 and any(value(problem, t.measurement) for t in trials)
                above = asked[0]["gpu_freq_mhz"] >= trial.setting["gpu_freq_mhz"]
                assert not (broken and above and asked[0][BATCH_KNOB] == trial.setting[BATCH_KNOB])
            done = measure(asked[0])
            trials.append(Trial(len(trials), asked[0], TrialState.DONE, attempts=1, measurement=done))
        assert any((excess(problem, trial) or 0) > 0 for trial in trials)


def test_a_clock_that_is_not_held_bounds_the_clock() -> None:
    def script(setting: Setting, plan: BurstPlan) -> Measurement | None:
        return failed(Status.THROTTLED) if setting["gpu_freq_mhz"] >= 600 else None

    recommended = Study(ToyDevice(clocks=6, batches=6, script=script), "toy", cap_w=9.0).run().verdict.recommended
    assert recommended is not None
    assert recommended.setting["gpu_freq_mhz"] <= 500


def table(
    throughput: Callable[[float, float], float], power: Callable[[float, float], float], clocks: int = 7
) -> ReplayDevice:
    """A recorded table over clocks and batch sizes, with 2 % noise on throughput and 1 % on power."""
    rows = tuple(
        ProfileRow(
            {CLOCK.name: clock, BATCH.name: batch},
            Status.OK,
            throughput=throughput(clock / 900, batch),
            power_mean_w=power(clock / 900, batch),
        )
        for clock in CLOCK.values[:clocks]
        for batch in BATCH.values
    )
    profile = Profile(ProfileMetadata(device="made up"), (CLOCK.name, BATCH.name), rows)
    return ReplayDevice(profile, noise_throughput=0.02, noise_power=0.01)


def recommended(outcome: Outcome, throughput: Callable[[float, float], float]) -> tuple[float, float, float]:
    """True throughput of what was recommended, its clock and its batch size."""
    assert outcome.verdict.recommended is not None
    setting = outcome.verdict.recommended.setting
    return throughput(setting[CLOCK.name] / 900, setting[BATCH.name]), setting[CLOCK.name], setting[BATCH.name]


class TestWrongPriors:
    @pytest.mark.parametrize("cap_w", [9.0, 12.0])
    def test_a_throughput_that_falls_with_the_clock_and_a_power_that_falls_with_the_batch(self, cap_w: float) -> None:
        def throughput(f: float, b: float) -> float:
            return 100 * b / (b + 20) / (0.5 + f)

        def power(f: float, b: float) -> float:
            return 4 + 8 * f + 20 / b

        outcome = Study(table(throughput, power), "made up", cap_w=cap_w, baseline=False).run()
        found, clock, batch = recommended(outcome, throughput)
        assert power(clock / 900, batch) <= cap_w * 1.01
        best = max(
            throughput(c / 900, b) for c in CLOCK.values for b in BATCH.values if power(c / 900, b) <= cap_w * 0.98
        )
        assert found >= 0.85 * best

    def test_a_throughput_with_a_hole(self) -> None:
        """A kernel chosen badly at one batch size, half as fast at every clock."""

        def throughput(f: float, b: float) -> float:
            return (0.5 if b == 32 else 1.0) * b / (0.02 + b * 0.004 / f)

        def power(f: float, b: float) -> float:
            return 3 + 3 * f + 4 * f**3 * b / (b + 8)

        outcome = Study(table(throughput, power), "made up", cap_w=7.0, baseline=False).run()
        found, clock, batch = recommended(outcome, throughput)
        assert batch != 32
        assert power(clock / 900, batch) <= 7.0 * 1.01
        best = max(throughput(c / 900, b) for c in CLOCK.values for b in BATCH.values if power(c / 900, b) <= 6.86)
        assert found >= 0.95 * best

    def test_a_cap_nothing_holds_is_said(self) -> None:
        outcome = Study(table(lambda f, b: b * f, lambda f, b: 20 + b * f), "made up", cap_w=12.0).run()
        assert outcome.stopped is Stopped.INFEASIBLE
        assert len(outcome.trials) <= 8


class TestHardlyLoaded:
    """A small model on a large GPU: power near idle at every setting, throughput in proportion to the batch size."""

    BATCH = Knob(BATCH_KNOB, tuple(4 * 2**i for i in range(13)))

    def answer(self, setting: Setting, rough: float = 0.015) -> Measurement:
        uneven = math.sin(7.0 * self.BATCH.values.index(setting[BATCH_KNOB]) + setting[LIMIT.name])
        return answer(setting[BATCH_KNOB] / (0.05 + setting[BATCH_KNOB] * 2e-6), 37.5 * (1 + rough * uneven))

    @pytest.mark.parametrize("cap_w", [37.2, 37.6, 38.0])
    def test_a_cap_amid_the_flat_power_does_not_end_it_at_a_small_batch(self, cap_w: float) -> None:
        problem = problem_with(self.BATCH, LIMIT, cap_w=cap_w)
        found = [value(problem, t.measurement) or -math.inf for t in search(problem, self.answer).trials]
        best = max(value(problem, self.answer(s)) or -math.inf for s in problem.space.settings)
        assert max(found) > best - 0.2

    def test_what_noise_alone_put_above_the_cap_is_asked_again(self) -> None:
        """The largest batch reads 0.5 % above: another burst there is worth more than any at a batch a tenth of it."""
        problem = problem_with(self.BATCH, LIMIT, cap_w=37.5)
        settings = [{BATCH_KNOB: b, LIMIT.name: w} for b, w in ((64, 100), (64, 250), (16384, 100))]
        trials = [
            Trial(i, setting, TrialState.DONE, measurement=replace(self.answer(setting), power_mean_w=37.7))
            for i, setting in enumerate(settings)
        ]
        proposed = CapAwareStrategy().suggest(problem, trials).settings
        assert not proposed or proposed[0][BATCH_KNOB] >= 8192
        again = judge(problem, trials).unconfirmed
        assert proposed or (again is not None and again[BATCH_KNOB] >= 8192)
