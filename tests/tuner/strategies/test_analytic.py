from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from devices.device import BATCH_KNOB, BurstPlan, Device, Knob, Setting, WorkloadSpec
from devices.importers import import_zeus
from devices.measurement import Measurement, Status
from devices.replay import ReplayDevice
from tuner.goal import GOALS, Cap, Goal
from tuner.models.analytic import AnalyticModel, Point
from tuner.models.analytic_device import AnalyticDevice
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.strategies.analytic import AnalyticStrategy
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


LIMITS = (Knob("power_limit_w", (100, 125, 150, 175, 200, 225, 250)), Knob(BATCH_KNOB, (8, 16, 32, 64, 128)))


def burst(device: Device, setting: Setting) -> Measurement:
    return device.measure(setting, WorkloadSpec("any"), BurstPlan())


def limited(mix: float, noise: float = 0.0) -> tuple[Problem, Callable[[Setting], Measurement]]:
    """A board with a power limit that bends as softly as `mix` says, under a cap of 160 W."""
    values = {"t0": 0.02, "c0": 0.0001, "c1": 0.001, "p0": 40.0, "p1": 180.0, "w": 0.3}
    board = AnalyticModel.of_coefficients(LIMITS, values | {"a": 0.97, "mix": mix, "knee": 0.7})
    device = AnalyticDevice(board, noise_throughput=2 * noise, noise_power=noise)
    problem = Problem(Space.of(device.describe()), GOALS["throughput"], Cap(160.0, "mean"))
    return problem, partial(burst, device)


@pytest.mark.parametrize("mix", [3.0, 7.0, 50.0])
def test_how_softly_a_limit_binds_is_not_asked_of_a_few_bursts(mix: float) -> None:
    problem, measure = limited(mix, 0.01)
    trials, _ = drive(open_strategy("analytic"), problem, measure, 25)
    exact, truth = limited(mix)
    true = {problem.space.key(s): truth(s) for s in exact.space.settings}
    speeds = {key: m.throughput or 0.0 for key, m in true.items() if (m.power_mean_w or math.inf) <= 160}
    found = [speeds.get(problem.space.key(t.setting), 0.0) for t in trials]
    assert max(found) >= 0.98 * max(speeds.values())
    assert len(trials) <= 10


def test_the_optimum_is_measured_before_its_rivals_and_no_setting_twice() -> None:
    problem, measure = limited(7.0, 0.01)
    trials, _ = drive(open_strategy("analytic"), problem, measure, 25)
    assert len({problem.space.key(trial.setting) for trial in trials}) == len(trials)
    assert 5 < len(trials) <= 10
    held = AnalyticStrategy()._held(problem.space)
    assert held == {"mix": pytest.approx(math.exp(2.0), rel=0.5)}
    points = [
        Point(t.setting, t.setting[BATCH_KNOB] / m.throughput, m.power_mean_w)
        for t in trials[:5]
        if (m := t.measurement) is not None and m.throughput
    ]
    model = AnalyticModel.fit(problem.space.knobs, points, fixed=held, plain=False)
    first = model.optimum(problem.space.settings, 160.0)
    assert first is not None
    assert first.prediction.setting in [trial.setting for trial in trials[: 5 + 1]]


def test_recorded_power_limits(data_folder: Path) -> None:
    near = 0
    tables = (("v100", "adadelta"), ("v100", "adam"), ("a40", "adadelta"))
    for gpu, optimizer in tables:
        path = data_folder / "zeus-nsdi23" / f"summary_power_{gpu}.csv"
        profile = import_zeus(path, f"cifar100/shufflenetv2/{optimizer}")
        device = ReplayDevice(profile, noise_throughput=0.02, noise_power=0.01)
        low_w, high_w = profile.power_range_w() or (0.0, 0.0)
        cells = {profile.key(cell.setting): cell for cell in profile.cells()}
        for share in (0.25, 0.5, 0.75):
            cap_w = low_w + share * (high_w - low_w)
            problem = Problem(Space.of(device.describe()), GOALS["throughput"], Cap(cap_w, "mean"))
            trials, _ = drive(open_strategy("analytic"), problem, partial(burst, device), 25)
            tried = [cells[profile.key(trial.setting)] for trial in trials]
            best = profile.best_feasible(0.98 * cap_w)  # what can be certified in the face of noise
            assert best is not None
            found = max((c.throughput for c in tried if (c.power_w or math.inf) <= 0.98 * cap_w), default=0.0)
            near += found >= 0.98 * best.throughput
    assert near >= 5  # of 9; 2 where the softness of the limit was fitted too, and rivals were not measured
