from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Measurement, Status
from tuner.evidence import pool
from tuner.goal import GOALS, Cap
from tuner.models.surrogate import Surrogate
from tuner.problem import Problem
from tuner.recommend import baseline_setting, is_hopeless, judge
from tuner.testing import toy_measurement, toy_problem
from tuner.trial import Trial, TrialState


def told(problem: Problem, *bursts: tuple[float, float, float, float], sem: float = 0.01) -> list[Trial]:
    """Trials from (clock, batch, throughput, watts)."""
    trials = []
    for i, (clock, batch, throughput, power_w) in enumerate(bursts):
        measurement = Measurement(
            Status.OK,
            "emulated",
            throughput=throughput,
            throughput_sem=sem * throughput,
            power_mean_w=power_w,
            power_mean_sem_w=sem * power_w,
        )
        setting = {"gpu_freq_mhz": clock, "batch_size": batch}
        trials.append(Trial(i, setting, TrialState.DONE, attempts=1, measurement=measurement))
    return trials


def at(clock: float, batch: float) -> Setting:
    return {"gpu_freq_mhz": clock, "batch_size": batch}


PROBLEM = toy_problem(clocks=4, batches=5, cap_w=9.0)
SPREAD = ((300, 1, 10, 5.0), (300, 16, 30, 6.0), (400, 4, 25, 7.0), (500, 4, 30, 10.0))


class TestPool:
    def test_bursts_at_one_setting_are_averaged(self) -> None:
        (evidence,) = pool(PROBLEM, told(PROBLEM, (300, 1, 10, 5), (300, 1, 14, 7), sem=0.1)).values()
        assert evidence.goal.value == 12
        assert evidence.goal.sem == pytest.approx((1.0**2 + 1.4**2) ** 0.5 / 2)
        assert evidence.power is not None
        assert evidence.power.value == 6
        assert not evidence.exact

    def test_failed_bursts_are_no_evidence(self) -> None:
        trial = told(PROBLEM, (300, 1, 10, 5))[0]
        assert trial.measurement is not None
        broken = replace(trial, measurement=replace(trial.measurement, status=Status.THROTTLED))
        assert pool(PROBLEM, [broken]) == {}


class TestJudge:
    def test_nothing_measured(self) -> None:
        verdict = judge(PROBLEM, [])
        assert (verdict.best_measured, verdict.recommended, verdict.unconfirmed) == (None, None, None)

    def test_one_burst_has_to_be_confirmed(self) -> None:
        verdict = judge(PROBLEM, told(PROBLEM, *SPREAD))
        assert verdict.recommended is None
        assert verdict.unconfirmed == at(300, 16)

    def test_a_second_burst_confirms(self) -> None:
        verdict = judge(PROBLEM, told(PROBLEM, *SPREAD, (300, 16, 30.5, 6.05)))
        assert verdict.recommended is not None
        assert verdict.recommended.setting == at(300, 16)
        assert verdict.recommended.goal.value == 30.25
        assert (verdict.feasible_probability or 0) >= 0.95
        assert verdict.unconfirmed is None

    def test_exact_measurements_confirm_themselves(self) -> None:
        verdict = judge(PROBLEM, told(PROBLEM, *SPREAD, (600, 1, 40, 8.999), sem=0.0))
        assert verdict.recommended is not None
        assert verdict.recommended.setting == at(600, 1)
        assert verdict.feasible_probability == 1.0

    def test_a_setting_at_the_cap_is_not_recommended(self) -> None:
        bursts = (*SPREAD, (500, 1, 50, 8.98), (500, 1, 50, 8.99))
        verdict = judge(PROBLEM, told(PROBLEM, *bursts))
        assert verdict.best_measured is not None
        assert verdict.best_measured.setting == at(500, 1)
        assert verdict.recommended is None or verdict.recommended.setting != at(500, 1)

    def test_a_lucky_burst_under_the_cap_does_not_hide_two_above(self) -> None:
        bursts = (*SPREAD, (500, 1, 50, 8.5), (500, 1, 50, 9.4), (500, 1, 50, 9.4))
        verdict = judge(PROBLEM, told(PROBLEM, *bursts))
        assert verdict.best_measured is not None
        assert verdict.best_measured.setting == at(300, 16)

    def test_what_two_bursts_found_counts_for_more_than_what_their_neighbours_promise(self) -> None:
        """One reading of half the speed: however sure the model is, the user would get what was measured."""
        neighbours = ((300, 1, 30, 5.0), (300, 2, 58, 5.2), (300, 4, 85, 5.4), (300, 16, 90, 6.0))
        trials = told(PROBLEM, *neighbours, (300, 8, 40, 5.6), (300, 8, 85, 5.6), sem=0.2)
        verdict = judge(PROBLEM, trials)
        assert verdict.recommended is not None
        assert verdict.recommended.setting == at(300, 8)
        assert verdict.unconfirmed in (at(300, 16), at(300, 4))
        settled = judge(PROBLEM, [*trials, *told(PROBLEM, (300, 16, 88, 6.0), (300, 4, 84, 5.4), sem=0.2)])
        assert settled.recommended is not None
        assert settled.recommended.setting == at(300, 16)


class TestHopeless:
    def test_everything_far_above(self) -> None:
        problem = toy_problem(cap_w=1.0)
        assert is_hopeless(problem, told(problem, *SPREAD))

    def test_not_while_something_is_near_or_little_is_known(self) -> None:
        problem = toy_problem(cap_w=4.9)
        assert not is_hopeless(problem, told(problem, *SPREAD))
        assert not is_hopeless(toy_problem(cap_w=1.0), told(PROBLEM, *SPREAD[:2]))
        assert not is_hopeless(toy_problem(cap_w=None), told(PROBLEM, *SPREAD))


class TestBaseline:
    def test_the_default_where_it_holds_the_cap(self) -> None:
        trials = told(PROBLEM, *SPREAD, (400, 16, 33, 7.2))
        assert baseline_setting(PROBLEM, trials, at(400, 16)) == at(400, 16)

    def test_slower_where_it_does_not(self) -> None:
        trials = told(PROBLEM, *SPREAD, (600, 4, 60, 13.0))
        assert baseline_setting(PROBLEM, trials, at(600, 4)) == at(400, 4)

    def test_unknown(self) -> None:
        assert baseline_setting(PROBLEM, told(PROBLEM, *SPREAD), None) is None
        assert baseline_setting(PROBLEM, [], at(300, 1)) is None


class TestSurrogate:
    def test_it_meets_what_was_measured(self) -> None:
        problem = toy_problem(clocks=6, batches=6)
        settings = problem.space.settings[::3]
        trials = [
            Trial(i, s, TrialState.DONE, measurement=toy_measurement(s, sem=0.001)) for i, s in enumerate(settings)
        ]
        surrogate = Surrogate(problem, trials)
        mean, _ = surrogate.goal_log(settings)
        measured = np.log([toy_measurement(s).throughput or 0 for s in settings])
        assert np.abs(mean - measured).max() < 0.01
        unseen = problem.space.settings[1::3]
        truth = np.log([toy_measurement(s).throughput or 0 for s in unseen])
        assert np.median(np.abs(surrogate.goal_log(unseen)[0] - truth)) < 0.1

    def test_probability_is_sharp_where_power_is_known_and_even_at_the_cap(self) -> None:
        trials = told(PROBLEM, *SPREAD, (600, 1, 40, 9.0))
        surrogate = Surrogate(PROBLEM, trials)
        low, high, edge = surrogate.feasible_probability([at(300, 1), at(500, 4), at(600, 1)])
        assert low > 0.999
        assert high < 0.001
        assert 0.2 < edge < 0.8

    def test_nothing_known(self) -> None:
        with pytest.raises(ValueError, match="burst"):
            Surrogate(PROBLEM, [])


@pytest.mark.parametrize(("sem", "bursts"), [(0.0, 1), (0.01, 2)])
def test_energy_is_that_of_the_mean_power_under_a_cap_on_p95(sem: float, bursts: int) -> None:
    problem = replace(toy_problem(), goal=GOALS["energy"], cap=Cap(12.0, "p95"))
    trials: list[Trial] = []
    for batch, mean, p95 in ((4, 5.0, 10.0), (8, 5.6, 6.0)):
        found = Measurement(
            Status.OK,
            "emulated",
            throughput=10.0,
            throughput_sem=10 * sem,
            power_mean_w=mean,
            power_mean_sem_w=mean * sem,
            power_p95_w=p95,
            power_p95_sem_w=p95 * sem,
            energy_per_sample_j=mean / 10,
        )
        for _ in range(bursts):
            setting = {"gpu_freq_mhz": 300, BATCH_KNOB: batch}
            trials.append(Trial(len(trials), setting, TrialState.DONE, attempts=1, measurement=found))
    verdict = judge(problem, trials)
    assert verdict.recommended is not None
    assert verdict.recommended.setting[BATCH_KNOB] == 4
