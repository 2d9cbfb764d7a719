from __future__ import annotations

from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Measurement, Status
from tuner.goal import GOALS, Goal
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.testing import drive, toy_measurement, toy_problem
from tuner.trial import Trial


def value(problem: Problem, measurement: Measurement | None) -> float:
    """The goal, larger is better; minus infinity above the cap."""
    estimate = None if measurement is None else problem.goal.estimate(measurement)
    if measurement is None or estimate is None:
        return -float("inf")
    if problem.cap is not None and (measurement.power_mean_w or 0) > problem.cap.watts:
        return -float("inf")
    return estimate.value if problem.goal.maximize else -estimate.value


def neighbours(space: Space, setting: Setting) -> list[Setting]:
    found: list[Setting] = []
    for knob in space.free:
        rank = knob.values.index(setting[knob.name])
        ranks = [r for r in (rank - 1, rank + 1) if 0 <= r < len(knob.values)]
        found += [{**setting, knob.name: knob.values[r]} for r in ranks]
    return found


@pytest.mark.parametrize("goal", GOALS.values(), ids=lambda goal: goal.name)
@pytest.mark.parametrize(("clocks", "batches", "cap_w"), [(4, 5, 9.0), (6, 6, 9.0), (8, 9, 9.0), (5, 5, None)])
def test_reaches_the_optimum_of_the_toy(clocks: int, batches: int, cap_w: float | None, goal: Goal) -> None:
    problem = replace(toy_problem(clocks=clocks, batches=batches, cap_w=cap_w), goal=goal)
    trials, _ = drive(open_strategy("coordinate-descent"), problem, toy_measurement, 99)
    best = max(value(problem, toy_measurement(s)) for s in problem.space.settings)
    assert max(value(problem, trial.measurement) for trial in trials) == best
    assert len(trials) < len(problem.space) / 2 + 4


def test_begins_at_the_safe_start_and_doubles_its_steps() -> None:
    problem = toy_problem(clocks=20, batches=1, cap_w=None)
    trials, _ = drive(open_strategy("coordinate-descent"), problem, toy_measurement, 99)
    assert trials[0].setting == problem.space.safe_start()
    ranks = [problem.space.free[0].values.index(trial.setting["gpu_freq_mhz"]) for trial in trials]
    assert ranks == [0, 1, 3, 7, 15, 19, 18]  # at last the neighbour below the end


def test_ends_where_no_neighbour_is_better() -> None:
    problem = toy_problem(clocks=12, batches=9, cap_w=7.7)
    trials, _ = drive(open_strategy("coordinate-descent"), problem, toy_measurement, 99)
    best = max(trials, key=lambda trial: value(problem, trial.measurement))
    tried = [dict(trial.setting) for trial in trials]
    for setting in neighbours(problem.space, best.setting):
        assert setting in tried
        assert value(problem, toy_measurement(setting)) <= value(problem, best.measurement)


def test_above_the_cap_it_goes_where_the_power_is_lower() -> None:
    problem = toy_problem(cap_w=5.1)  # at the lowest clock the smallest batch size alone holds it
    trials, _ = drive(open_strategy("coordinate-descent"), problem, toy_measurement, 99)
    assert value(problem, trials[0].measurement) == -float("inf")
    assert any(value(problem, trial.measurement) > 0 for trial in trials)


def test_a_batch_that_does_not_fit_halves_the_step() -> None:
    trials, _ = drive(
        open_strategy("coordinate-descent"),
        toy_problem(batches=9, cap_w=None),
        lambda s: toy_measurement(s, oom_from=64),
        99,
    )
    assert [trial.setting[BATCH_KNOB] for trial in trials if trial.status is Status.OOM] == [128, 64]
    assert max(trial.setting[BATCH_KNOB] for trial in trials if trial.valid) == 32


def test_a_pending_step_counts_as_failed_until_it_is_measured() -> None:
    problem = toy_problem()
    strategy = open_strategy("coordinate-descent")
    trials, _ = drive(strategy, problem, toy_measurement, 1)
    first = strategy.suggest(problem, trials).settings[0]
    second = strategy.suggest(problem, [*trials, Trial(1, first)]).settings[0]
    assert first["gpu_freq_mhz"] > trials[0].setting["gpu_freq_mhz"]
    assert second["gpu_freq_mhz"] == trials[0].setting["gpu_freq_mhz"]
    assert second[BATCH_KNOB] > trials[0].setting[BATCH_KNOB]
