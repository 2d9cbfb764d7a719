"""What every peer bears: odd problems, and bursts that it did not ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting
from devices.errors import UnsupportedError
from devices.measurement import Measurement, Status
from tuner.goal import GOALS, Cap
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.testing import drive, toy_measurement, toy_problem
from tuner.trial import Role, Trial, TrialState

PEERS = ["random", "lut", "optuna-tpe", "optuna-gp", "taste", "frequency-only", "coordinate-descent"]
ENDING = ["taste", "frequency-only", "coordinate-descent"]  # before the space is exhausted


@pytest.fixture(autouse=True)
def _optuna() -> None:
    pytest.importorskip("optuna")


def power_table(setting: Setting) -> Measurement:
    """A toy without a clock: more threads are faster and draw more."""
    threads = setting["cpu_threads"]
    return Measurement(
        Status.OK, "emulated", throughput=10.0 * threads, power_mean_w=2.0 + threads, energy_per_sample_j=1 / threads
    )


def noisy(setting: Setting) -> Measurement:
    found = toy_measurement(setting, sem=0.02, oom_from=16)
    if not found.ok or found.throughput is None or found.power_mean_w is None:
        return found
    draw = np.random.default_rng([int(v) for v in setting.values()]).standard_normal(2)
    return replace(
        found,
        throughput=found.throughput * math.exp(0.02 * draw[0]),
        power_mean_w=found.power_mean_w * math.exp(0.02 * draw[1]),
    )


def sparse() -> Problem:
    problem = toy_problem(clocks=5, batches=6)
    kept = tuple(s for i, s in enumerate(problem.space.settings) if i % 7 not in (3, 5))
    return replace(problem, space=Space(problem.space.knobs, kept))


def one_knob(knob: Knob) -> Problem:
    info = DeviceInfo("toy", "emulated", (knob,))
    return Problem(Space.of(info), GOALS["throughput"], Cap(6.0, "mean"))


def oom_everywhere(setting: Setting) -> Measurement:
    return Measurement(Status.OOM, "emulated", reason="full")


def guarded(setting: Setting) -> Measurement:
    """Bursts above 7 W are ended by the guard, before anything but the power is known."""
    found = toy_measurement(setting)
    if (found.power_mean_w or 0) <= 7:
        return found
    return Measurement(Status.OVER_CAP, "emulated", reason="guard", power_mean_w=found.power_mean_w)


def crash_everywhere(setting: Setting) -> Measurement:
    return Measurement(Status.CRASHED, "emulated", reason="toy crash")


CASES: dict[str, tuple[Problem, Callable[[Setting], Measurement]]] = {
    "many batches": (toy_problem(clocks=2, batches=12), toy_measurement),
    "no cap": (toy_problem(cap_w=None), toy_measurement),
    "cap below everything": (toy_problem(cap_w=1.0), toy_measurement),
    "cap above everything": (toy_problem(cap_w=99.0), toy_measurement),
    "energy": (replace(toy_problem(), goal=GOALS["energy"]), toy_measurement),
    "noise and oom": (toy_problem(), noisy),
    "missing cells": (sparse(), toy_measurement),
    "two settings": (toy_problem(clocks=2, batches=1), toy_measurement),
    "two batches": (toy_problem(clocks=1, batches=2), toy_measurement),
    "nothing fits": (toy_problem(), oom_everywhere),
    "nothing runs": (toy_problem(), crash_everywhere),
    "guarded": (toy_problem(cap_w=7.0), guarded),
    "threads only": (one_knob(Knob("cpu_threads", (1, 2, 3, 4, 6, 8))), power_table),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PEERS)
def test_odd_problems(name: str, case: str) -> None:
    problem, measure = CASES[case]
    strategy = open_strategy(name)
    try:
        strategy.suggest(problem, [])
    except UnsupportedError as error:
        assert name in str(error)  # noqa: PT017
        assert (name, case) in {("taste", "threads only"), ("frequency-only", "threads only")}
        return
    trials, state = drive(strategy, problem, measure, 12 if name == "optuna-gp" else 40)
    keys = [problem.space.key(trial.setting) for trial in trials]
    assert keys
    assert len(set(keys)) == len(keys)
    assert all(trial.setting in problem.space for trial in trials)
    bound = math.inf
    for trial in trials:
        assert trial.setting.get(BATCH_KNOB, 0) < bound
        bound = min(bound, trial.setting[BATCH_KNOB]) if trial.status is Status.OOM else bound
    if name != "optuna-gp":
        assert strategy.suggest(problem, trials, 2, state).converged


@pytest.mark.parametrize("case", [case for case in CASES if case != "threads only"])
@pytest.mark.parametrize("name", ENDING)
def test_stays_converged_whatever_is_measured_besides(name: str, case: str) -> None:
    problem, measure = CASES[case]
    strategy = open_strategy(name)
    trials, _ = drive(strategy, problem, measure, 99)
    repeated = replace(trials[-1], index=len(trials), role=Role.CONFIRM)
    if repeated.valid is not None and repeated.measurement is not None:  # another reading of it
        worse = replace(repeated.measurement, throughput=0.5, power_mean_w=20.0)
        repeated = replace(repeated, measurement=worse)
    trials.append(repeated)
    assert strategy.suggest(problem, trials).converged
    for setting in problem.open_space(trials).untried(trial.setting for trial in trials):
        baseline = Trial(len(trials), setting, TrialState.DONE, Role.BASELINE, 1, measure(setting))
        if baseline.status is not Status.OOM:
            trials.append(baseline)
            assert strategy.suggest(problem, trials).converged


@pytest.mark.parametrize("name", PEERS)
def test_several_at_once_are_different_and_end(name: str) -> None:
    problem = toy_problem()
    strategy = open_strategy(name)
    trials: list[Trial] = []
    while len(trials) < (9 if name == "optuna-gp" else 30):
        settings = strategy.suggest(problem, trials, 3).settings
        if not settings:
            break
        pending = [Trial(len(trials) + i, setting) for i, setting in enumerate(settings)]
        more = strategy.suggest(problem, [*trials, *pending], 1).settings
        keys = [problem.space.key(s) for s in (*(t.setting for t in (*trials, *pending)), *more)]
        assert len(set(keys)) == len(keys)
        trials += [replace(t, state=TrialState.DONE, measurement=toy_measurement(t.setting)) for t in pending]
    assert trials


@pytest.mark.parametrize("name", PEERS)
def test_a_seed_decides_only_what_is_random(name: str) -> None:
    runs = [drive(open_strategy(name), toy_problem(seed=seed), toy_measurement, 4)[0] for seed in (0, 1, 1)]
    assert runs[1] == runs[2]
    if name in ("random", "optuna-tpe", "optuna-gp", "taste"):
        assert runs[0] != runs[1]
    else:
        assert runs[0] == runs[1]


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-gp", "taste"])
def test_without_optuna_one_sentence_and_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(UnsupportedError, match=f"{name} needs Optuna") as caught:
        open_strategy(name)
    assert caught.value.hint == "pip install 'taste-tuner[arena]'"
