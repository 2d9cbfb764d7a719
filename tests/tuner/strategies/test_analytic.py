from __future__ import annotations

from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Measurement, Status
from tuner.goal import GOALS, Goal
from tuner.problem import Problem
from tuner.strategies import open_strategy
from tuner.testing import drive, toy_measurement, toy_problem
from tuner.trial import Role, Trial, TrialState


def best_value(problem: Problem) -> float:
    """The goal at the best setting under the cap; less is better for energy."""
    cap_w = problem.cap.watts if problem.cap else float("inf")
    found = [toy_measurement(setting) for setting in problem.space.settings]
    values = [e.value for m in found if (m.power_mean_w or 0) <= cap_w and (e := problem.goal.estimate(m))]
    return max(values) if problem.goal.maximize else min(values)


def values(problem: Problem, trials: list[Trial]) -> list[float]:
    cap_w = problem.cap.watts if problem.cap else float("inf")
    found = [t.measurement for t in trials if t.measurement and (t.measurement.power_mean_w or 99) <= cap_w]
    return [e.value for m in found if (e := problem.goal.estimate(m))]


@pytest.mark.parametrize("goal", GOALS.values(), ids=lambda goal: goal.name)
@pytest.mark.parametrize("cap_w", [6.0, 9.0, None])
def test_finds_the_optimum_of_the_toy_in_a_few_bursts(cap_w: float | None, goal: Goal) -> None:
    problem = replace(toy_problem(clocks=8, batches=7, cap_w=cap_w), goal=goal)
    trials, _ = drive(open_strategy("analytic"), problem, toy_measurement, 25)
    assert len(trials) <= 8
    best, found = best_value(problem), values(problem, trials)
    assert max(found) >= 0.97 * best if goal.maximize else min(found) <= 1.03 * best


def test_begins_at_the_safe_start_and_spreads() -> None:
    problem = toy_problem(clocks=5, batches=5)
    trials, _ = drive(open_strategy("analytic"), problem, toy_measurement, 5)
    settings = [trial.setting for trial in trials]
    assert settings[0] == problem.space.safe_start()
    assert {s["gpu_freq_mhz"] for s in settings[1:3]} == {700}
    assert {s[BATCH_KNOB] for s in settings[1:3]} == {1, 16}


@pytest.mark.parametrize(("clocks", "batches", "fitted"), [(8, 1, 4), (8, 7, 5)])
def test_one_burst_more_than_the_design_where_the_model_is_right(clocks: int, batches: int, fitted: int) -> None:
    trials, _ = drive(open_strategy("analytic"), toy_problem(clocks=clocks, batches=batches), toy_measurement, 25)
    assert fitted <= len(trials) <= fitted + 3


def test_a_cap_below_everything_ends_at_the_lowest_power() -> None:
    problem = toy_problem(clocks=5, batches=5, cap_w=1.0)
    trials, _ = drive(open_strategy("analytic"), problem, toy_measurement, 25)
    assert len(trials) <= 8
    assert {"gpu_freq_mhz": 300, BATCH_KNOB: 1} in [trial.setting for trial in trials]


def test_bursts_that_are_not_its_own_do_not_move_it() -> None:
    problem = toy_problem(clocks=8, batches=7)
    strategy = open_strategy("analytic")
    trials, _ = drive(strategy, problem, toy_measurement, 25)
    assert strategy.suggest(problem, trials).converged
    setting = problem.space.untried(t.setting for t in trials)[-1]
    odd = replace(toy_measurement(setting), throughput=1e6, power_mean_w=0.1)
    baseline = Trial(4, setting, TrialState.DONE, Role.BASELINE, 1, odd)
    assert strategy.suggest(problem, [*trials[:4], baseline]).settings == (trials[4].setting,)
    assert strategy.suggest(problem, [*trials[:5], replace(baseline, index=5)]).settings == (trials[5].setting,)
    for setting in problem.space.untried(t.setting for t in trials)[:3]:
        odd = replace(toy_measurement(setting), throughput=1e6, power_mean_w=0.1)
        trials.append(Trial(len(trials), setting, TrialState.DONE, Role.BASELINE, 1, odd))
    for trial in trials[:2]:
        odd = replace(toy_measurement(trial.setting), throughput=1e6, power_mean_w=0.1)
        trials.append(Trial(len(trials), trial.setting, TrialState.DONE, Role.CONFIRM, 1, odd))
    assert strategy.suggest(problem, trials).converged


def test_failed_bursts_are_made_up_for() -> None:
    def measure(setting: Setting) -> Measurement:
        if setting["gpu_freq_mhz"] == 700:
            return Measurement(Status.CRASHED, "emulated", reason="toy crash")
        return toy_measurement(setting)

    problem = toy_problem(clocks=5, batches=5, cap_w=None)
    trials, _ = drive(open_strategy("analytic"), problem, measure, 25)
    assert sum(trial.valid is not None for trial in trials) >= 6
    assert values(problem, trials)[-1] == max(values(problem, trials))


def test_pending_bursts_of_the_design_are_spread_around() -> None:
    problem = toy_problem(clocks=5, batches=5)
    settings = open_strategy("analytic").suggest(problem, [], 3).settings
    assert len({problem.space.key(setting) for setting in settings}) == 3


def test_the_published_terms_alone_are_a_variant() -> None:
    problem = toy_problem(clocks=8, batches=7, cap_w=9.0)
    trials, _ = drive(open_strategy("analytic:plain"), problem, toy_measurement, 25)
    assert len(trials) <= 8
