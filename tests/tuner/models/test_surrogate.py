"""The surrogate reads trials as what they are, and says goal and power in one unit with them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting
from devices.measurement import Measurement, Status
from tuner.goal import GOALS, Cap, Goal
from tuner.models.surrogate import Surrogate, power_readings
from tuner.problem import Problem
from tuner.space import Space
from tuner.testing import toy_measurement, toy_problem
from tuner.trial import Trial, TrialState

CAP = Cap(9.0, "mean")
BOTH = pytest.mark.parametrize("goal", GOALS.values(), ids=lambda goal: goal.name)
AT = ((300, 1), (300, 16), (500, 4), (600, 2))


def at(clock: float, batch: float) -> Setting:
    return {"gpu_freq_mhz": clock, BATCH_KNOB: batch}


def problem_of(goal: Goal = GOALS["throughput"], cap: Cap | None = CAP, seed: int = 0) -> Problem:
    return replace(toy_problem(seed=seed), goal=goal, cap=cap)


def trials_at(*places: tuple[float, float], sem: float = 0.01) -> list[Trial]:
    """What the toy answers there; its 95th percentile is a quarter above the mean, as certain."""
    trials = []
    for i, place in enumerate(places):
        found = toy_measurement(at(*place), sem=sem)
        assert found.power_mean_w is not None
        assert found.power_mean_sem_w is not None
        found = replace(found, power_p95_w=1.25 * found.power_mean_w, power_p95_sem_w=1.25 * found.power_mean_sem_w)
        trials.append(Trial(i, at(*place), TrialState.DONE, attempts=1, measurement=found))
    return trials


def over_cap(index: int, clock: float, batch: float, watts: float, sem: float | None = None) -> Trial:
    found = Measurement(Status.OVER_CAP, "emulated", power_mean_w=watts, power_mean_sem_w=sem, cost_s=3.0)
    return Trial(index, at(clock, batch), TrialState.DONE, attempts=1, measurement=found)


def settings_of(trials: list[Trial]) -> list[Setting]:
    return [trial.setting for trial in trials]


def goals_of(goal: Goal, trials: list[Trial]) -> list[float]:
    """Logarithms of what was measured of the goal, larger is better."""
    found = [goal.estimate(t.measurement) for t in trials if t.measurement]
    return [(1 if goal.maximize else -1) * math.log(e.value) for e in found if e]


def test_without_a_burst_there_is_none() -> None:
    pending = Trial(0, at(300, 1))
    for trials in ([], [pending], [replace(pending, measurement=Measurement(Status.CRASHED, "emulated"))]):
        with pytest.raises(ValueError, match="at least one burst"):
            Surrogate(problem_of(), trials)


@BOTH
@pytest.mark.parametrize("cap", [Cap(9.0, "mean"), None])
def test_merit_measured_and_merit_expected_are_the_goals_own_logarithm(goal: Goal, cap: Cap | None) -> None:
    trials = trials_at(*AT, sem=0.003)
    surrogate = Surrogate(problem_of(goal, cap), trials)
    settings = settings_of(trials)
    assert surrogate.measured_merit(settings) == pytest.approx(goals_of(goal, trials))
    mean, sd = surrogate.goal_log(settings)
    assert mean == pytest.approx(goals_of(goal, trials), abs=0.015)
    assert (sd < 0.02).all()


@BOTH
def test_merit_without_a_batch_knob_has_the_same_unit(goal: Goal) -> None:
    info = DeviceInfo("toy", "emulated", (Knob("gpu_freq_mhz", (300, 400, 500)),))
    problem = Problem(Space.of(info), goal, None)
    trials = [
        Trial(i, {"gpu_freq_mhz": clock}, TrialState.DONE, attempts=1, measurement=toy_measurement(at(clock, 4)))
        for i, clock in enumerate((300, 500))
    ]
    surrogate = Surrogate(problem, trials)
    assert surrogate.measured_merit(settings_of(trials)) == pytest.approx(goals_of(goal, trials))
    assert surrogate.goal_log(settings_of(trials))[0] == pytest.approx(goals_of(goal, trials), abs=0.01)


@BOTH
def test_what_was_not_measured_is_expected_about_where_it_is(goal: Goal) -> None:
    problem = problem_of(goal)
    surrogate = Surrogate(problem, trials_at(*AT))
    untried = problem.space.untried(settings_of(trials_at(*AT)))
    expected = [Trial(i, s, measurement=toy_measurement(s)) for i, s in enumerate(untried)]
    mean, sd = surrogate.goal_log(untried)
    away = np.abs(mean - goals_of(goal, expected))
    assert (away < 3 * sd).all()
    assert away.mean() < 0.15


def test_energy_knows_the_error_of_power_too() -> None:
    trials = trials_at(*AT)
    _, speed_sd = Surrogate(problem_of(cap=None), trials).goal_log([at(400, 8)])
    _, energy_sd = Surrogate(problem_of(GOALS["energy"], None), trials).goal_log([at(400, 8)])
    assert energy_sd > speed_sd


def test_step_time_is_that_of_a_step_and_not_of_a_sample() -> None:
    trials = trials_at(*AT, sem=0.003)
    step_time = Surrogate(problem_of(), trials).step_time(settings_of(trials))
    expected = [t.setting[BATCH_KNOB] / (t.measurement.throughput or 0) for t in trials if t.measurement]
    assert step_time / step_time[0] == pytest.approx(np.array(expected) / expected[0], rel=0.02)


def test_a_cap_on_p95_is_held_by_p95() -> None:
    trials = trials_at(*AT)
    settings = settings_of(trials)
    by_mean, by_p95 = (Surrogate(problem_of(cap=Cap(7.5, s)), trials) for s in ("mean", "p95"))
    watts = np.array([t.measurement.power_mean_w for t in trials if t.measurement])
    assert np.exp(by_mean.power_log(settings)[0]) == pytest.approx(watts, rel=0.02)
    assert np.exp(by_p95.power_log(settings)[0]) == pytest.approx(1.25 * watts, rel=0.02)
    # 300 MHz and a batch of 16: 6.2 W in the mean holds 7.5 W, 7.7 W by its 95th percentile does not.
    assert by_mean.feasible_probability(settings)[2] > 0.9
    assert by_p95.feasible_probability(settings)[2] < 0.1


def test_the_lower_bound_of_a_burst_the_guard_ended_is_a_reading() -> None:
    problem = problem_of()
    trials = [*trials_at((300, 1), (300, 16)), over_cap(2, 600, 16, 12.0)]
    assert [(s, e.value) for s, e in power_readings(problem, trials)][-1] == (at(600, 16), 12.0)
    before = Surrogate(problem, trials[:2]).power_log([at(600, 16)])
    after = Surrogate(problem, trials).power_log([at(600, 16)])
    assert np.exp(after[0]) == pytest.approx([12.0], rel=0.05)
    assert after[1] < before[1] / 2
    assert Surrogate(problem, trials).feasible_probability([at(600, 16)]) < 0.01
    assert problem.space.key(at(600, 16)) not in Surrogate(problem, trials).evidence


def test_one_burst_that_the_guard_ended_is_enough() -> None:
    surrogate = Surrogate(problem_of(), [over_cap(0, 500, 16, 12.0)])
    low, high = surrogate.feasible_probability([at(300, 1), at(600, 16)])
    assert low > high
    assert surrogate.best_held() is None


def test_a_lower_bound_below_the_cap_says_nothing() -> None:
    """Its guard watched another cap."""
    problem = problem_of()
    assert power_readings(problem, [over_cap(0, 500, 16, 8.0)]) == []
    with pytest.raises(ValueError, match="at least one burst"):
        Surrogate(problem, [over_cap(0, 500, 16, 8.0)])
    known = trials_at((300, 1), (300, 16))
    with_bound = Surrogate(problem, [*known, over_cap(2, 500, 16, 8.0)]).power_log([at(500, 16)])
    assert with_bound[0] == pytest.approx(Surrogate(problem, known).power_log([at(500, 16)])[0])


def test_failed_and_pending_bursts_change_nothing() -> None:
    problem, known = problem_of(), trials_at(*AT)
    crashed = replace(known[0], index=4, measurement=Measurement(Status.CRASHED, "emulated", throughput=1e6))
    more = [*known, crashed, Trial(5, at(400, 8))]
    for mine, other in zip(
        Surrogate(problem, more).goal_log(problem.space.settings),
        Surrogate(problem, known).goal_log(problem.space.settings),
        strict=True,
    ):
        assert (mine == other).all()


@pytest.mark.parametrize(("cap_w", "holds"), [(8.9999, 0.0), (9.0, 1.0)])
def test_exact_readings_leave_no_doubt(cap_w: float, holds: float) -> None:
    trials = trials_at((300, 1), (300, 16), sem=0.0)
    found = toy_measurement(at(500, 4))
    trials.append(Trial(2, at(500, 4), TrialState.DONE, attempts=1, measurement=replace(found, power_mean_w=9.0)))
    surrogate = Surrogate(problem_of(cap=Cap(cap_w, "mean")), trials)
    assert surrogate.exact
    assert surrogate.feasible_probability([at(500, 4), at(300, 1)]) == pytest.approx([holds, 1.0], abs=0)
    assert 0 < surrogate.feasible_probability([at(500, 8)])[0] < 1  # its neighbour was not measured


def test_noisy_readings_at_the_cap_leave_doubt() -> None:
    trials = trials_at(*AT)
    watts = trials[2].measurement.power_mean_w if trials[2].measurement else 0.0
    surrogate = Surrogate(problem_of(cap=Cap(watts or 0.0, "mean")), trials)
    assert not surrogate.exact
    assert 0.2 < surrogate.feasible_probability([at(500, 4)])[0] < 0.8


def test_without_a_cap_everything_holds_it() -> None:
    problem = problem_of(cap=None)
    surrogate = Surrogate(problem, trials_at(*AT))
    assert (surrogate.feasible_probability(problem.space.settings) == 1).all()
    assert (surrogate.outlook(problem.space.settings).within(None) == 1).all()


def test_several_bursts_are_surer_than_one() -> None:
    once, often = trials_at((300, 4), sem=0.05), trials_at(*[(300, 4)] * 4, sem=0.05)
    (first,), (later,) = (Surrogate(problem_of(), trials).power_log([at(300, 4)])[1] for trials in (once, often))
    assert later == pytest.approx(first / 2, rel=0.3)


@BOTH
def test_to_imagine_makes_surer_there_and_changes_nothing_else(goal: Goal) -> None:
    problem, setting = problem_of(goal), at(600, 16)
    surrogate = Surrogate(problem, trials_at((300, 1), (300, 16)))
    everywhere = surrogate.goal_log(problem.space.settings)
    mean, sd = surrogate.goal_log([setting])
    imagined = surrogate.imagine([setting])
    assert imagined.goal_log([setting])[1] < sd / 2
    assert imagined.power_log([setting])[1] < surrogate.power_log([setting])[1] / 2
    assert imagined.goal_log([setting])[0] == pytest.approx(mean, abs=sd[0])
    assert imagined.evidence == surrogate.evidence  # nothing was measured
    assert imagined.best_held() == pytest.approx(surrogate.best_held(), abs=0.02)
    for before, after in zip(everywhere, surrogate.goal_log(problem.space.settings), strict=True):
        assert (before == after).all()


def test_the_best_held_is_held_by_reading_and_by_the_model() -> None:
    trials = trials_at(*AT)
    cap_w = (toy_measurement(at(500, 4)).power_mean_w or 0) + 0.01
    held = Surrogate(problem_of(cap=Cap(cap_w, "mean")), trials).best_held()
    assert held == pytest.approx(goals_of(GOALS["throughput"], trials)[2], abs=0.02)
    lower = Surrogate(problem_of(cap=Cap(cap_w - 0.5, "mean")), trials).best_held()
    assert lower == pytest.approx(goals_of(GOALS["throughput"], trials)[1], abs=0.02)
    assert Surrogate(problem_of(cap=Cap(1.0, "mean")), trials).best_held() is None


def test_gains_fall_where_the_cap_will_not_hold() -> None:
    problem = problem_of(cap=Cap(7.5, "mean"))
    trials = trials_at((300, 1), (300, 16), (500, 4))
    settings = [at(400, 16), at(600, 16)]
    capped, free = (Surrogate(replace(problem, cap=cap), trials).expected_gain(settings) for cap in (problem.cap, None))
    assert free[1] > free[0]
    assert capped[1] < capped[0]
    assert np.isinf(Surrogate(replace(problem, cap=Cap(1.0, "mean")), trials).expected_gain(settings)).all()


def test_equal_problems_are_equal_and_seeds_differ() -> None:
    settings = problem_of().space.settings
    first, again, other = (
        Surrogate(problem_of(seed=seed), trials_at(*AT)).power_log(settings)[0] for seed in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_an_outlooks_improvement_is_above_what_is_certain_and_above_nothing() -> None:
    problem = problem_of()
    outlook = Surrogate(problem, trials_at(*AT)).outlook(problem.space.settings)
    for best in (3.0, 4.5):
        gain = outlook.improvement(best)
        assert gain.shape == outlook.merit.shape
        assert (gain >= np.maximum(outlook.merit - best, 0) - 1e-12).all()
    assert (outlook.within(Cap(9.0, "mean"), 1.05) >= outlook.within(Cap(9.0, "mean"))).all()
