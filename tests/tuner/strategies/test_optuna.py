from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, Setting
from devices.measurement import Measurement, Status
from tuner.goal import GOALS
from tuner.problem import Problem
from tuner.strategies import open_strategy
from tuner.testing import drive, toy_measurement, toy_problem
from tuner.trial import Trial

pytest.importorskip("optuna")
SAMPLERS = ["optuna-tpe", "optuna-gp"]
RANDOM_FIRST = 5


def over(problem: Problem, trials: list[Trial]) -> int:
    assert problem.cap is not None
    return sum((t.measurement.power_mean_w or 0) > problem.cap.watts for t in trials if t.measurement)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_cap_is_respected_where_it_is_learnt(name: str) -> None:
    """With the cap as constraint far fewer bursts are above it than without, where the best setting is."""
    capped = toy_problem(clocks=12, batches=8, cap_w=9.0)
    free = replace(capped, cap=None)
    with_cap, without = (
        over(capped, drive(open_strategy(name), problem, toy_measurement, 16)[0][RANDOM_FIRST:])
        for problem in (capped, free)
    )
    assert with_cap < 0.7 * without


@pytest.mark.parametrize("name", SAMPLERS)
def test_good_settings_are_found_by_their_order(name: str) -> None:
    """The values of a knob are ranks: what is learnt of one says something of its neighbours."""
    problem = toy_problem(clocks=30, batches=9, cap_w=None)
    trials, _ = drive(open_strategy(name), problem, toy_measurement, 18)
    found = max(t.measurement.throughput or 0 for t in trials if t.measurement)
    best = max(toy_measurement(s).throughput or 0 for s in problem.space.settings)
    assert found >= (0.95 if name == "optuna-gp" else 0.8) * best


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_goal_energy_is_minimized(name: str) -> None:
    problem = replace(toy_problem(clocks=10, batches=8, cap_w=None), goal=GOALS["energy"])
    values = sorted(toy_measurement(s).energy_per_sample_j or 0 for s in problem.space.settings)
    trials, _ = drive(open_strategy(name), problem, toy_measurement, 18)
    found = min(t.measurement.energy_per_sample_j or 99 for t in trials if t.measurement)
    assert found in values[:8]


@pytest.mark.parametrize("name", SAMPLERS)
def test_equal_trials_give_equal_suggestions_in_another_process(name: str) -> None:
    import subprocess

    code = (
        "from tuner.strategies import open_strategy; from tuner.testing import drive, toy_measurement, toy_problem;"
        f"print([t.setting for t in drive(open_strategy('{name}'), toy_problem(), toy_measurement, 8)[0]])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    trials, _ = drive(open_strategy(name), toy_problem(), toy_measurement, 8)
    assert done.stdout.strip() == str([trial.setting for trial in trials])
    assert "study" not in done.stderr  # Optuna reports each one it creates


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_batch_that_ran_out_of_memory_bounds_the_domain(name: str) -> None:
    problem = toy_problem(clocks=10, batches=9, cap_w=None)
    trials = [
        Trial(i, setting, measurement=toy_measurement(setting, oom_from=8), attempts=1)
        for i, setting in enumerate([{"gpu_freq_mhz": 600, BATCH_KNOB: 16}, {"gpu_freq_mhz": 300, BATCH_KNOB: 8}])
    ]
    for _ in range(6):
        settings = open_strategy(name).suggest(problem, trials).settings
        assert settings[0][BATCH_KNOB] < 8
        trials.append(Trial(len(trials), settings[0], measurement=toy_measurement(settings[0])))


@pytest.mark.parametrize("name", SAMPLERS)
def test_verbosity_of_optuna_is_left_as_it_was(name: str) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    open_strategy(name).suggest(toy_problem(), [])
    assert optuna.logging.get_verbosity() == before


def test_crashes_do_not_hold_the_gp_in_place() -> None:
    problem = toy_problem(clocks=8, batches=8, cap_w=None)

    def measure(setting: Setting) -> Measurement:
        if setting["gpu_freq_mhz"] == 1000:  # the fastest clock
            return Measurement(Status.CRASHED, "emulated", reason="unstable")
        return toy_measurement(setting)

    trials, _ = drive(open_strategy("optuna-gp"), problem, measure, 16)
    assert sum(trial.valid is None for trial in trials) <= 6
    assert max(t.setting["gpu_freq_mhz"] for t in trials if t.valid) == 900
