"""`cap-aware` where nobody can look at every setting: 175 392 of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, BurstPlan, Setting, WorkloadSpec
from devices.measurement import Measurement, Status
from tests.tuner.large import KNOBS, LargeDevice, optimum, physics
from tuner.goal import GOALS, Cap
from tuner.outcome import Stopped
from tuner.problem import Problem
from tuner.recommend import is_hopeless, judge
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.strategies.cap_aware import CapAwareStrategy
from tuner.study import Study
from tuner.testing import drive
from tuner.trial import Trial, TrialState

CAP_W = 9.0
PROBLEM = Problem(Space.of(LargeDevice().describe()), GOALS["throughput"], Cap(CAP_W, "mean"))


def measure(setting: Setting) -> Measurement:
    return LargeDevice().measure(setting, WorkloadSpec("resnet18"), BurstPlan())


def test_a_study_ends_near_the_optimum_and_below_the_cap() -> None:
    with Study(LargeDevice(), cap_w=CAP_W, seed=0) as study:
        outcome = study.run()
        tried = [trial.setting for trial in study.trials]
    assert outcome.stopped is Stopped.CONVERGED
    assert outcome.verdict.recommended is not None
    throughput, power = physics(outcome.verdict.recommended.setting)
    assert power <= CAP_W
    assert throughput > 0.95 * optimum(CAP_W)
    assert sum(physics(setting)[1] > 1.05 * CAP_W for setting in tried) <= 1


def test_a_stopped_search_goes_on_identically_and_repeats_nothing() -> None:
    trials, _ = drive(CapAwareStrategy(), PROBLEM, measure, 6)
    keys = [PROBLEM.space.key(trial.setting) for trial in trials]
    assert len(set(keys)) == len(keys) == 6
    for cut in (1, 3, 5):
        suggestion = CapAwareStrategy().suggest(PROBLEM, trials[:cut])
        assert suggestion.settings == (trials[cut].setting,)


def test_nothing_that_ran_out_of_memory_is_asked_for_again() -> None:
    trials, _ = drive(
        CapAwareStrategy(),
        PROBLEM,
        lambda s: LargeDevice(oom_from=32).measure(s, WorkloadSpec("resnet18"), BurstPlan()),
        8,
    )
    failed = [i for i, trial in enumerate(trials) if trial.status is Status.OOM]
    assert failed
    for first in failed:
        assert all(t.setting[BATCH_KNOB] < trials[first].setting[BATCH_KNOB] for t in trials[first + 1 :])


def test_boards_at_work_together_get_different_settings() -> None:
    trials, _ = drive(CapAwareStrategy(), PROBLEM, measure, 3)
    settings = CapAwareStrategy().suggest(PROBLEM, trials, 3).settings
    assert len({PROBLEM.space.key(setting) for setting in settings}) == 3


@pytest.mark.parametrize("name", ["random", "grid", "frequency-only", "coordinate-descent", "analytic", "taste"])
def test_the_others_get_along_too(name: str) -> None:
    trials, _ = drive(open_strategy(name), PROBLEM, measure, 4)
    assert trials
    assert all(trial.setting in PROBLEM.space for trial in trials)


def test_a_cap_below_everything_is_hopeless_and_one_among_it_is_not() -> None:
    high = [{knob.name: knob.values[-1 - i] for knob in KNOBS} for i in range(4)]
    trials = [Trial(i, s, TrialState.DONE, attempts=1, measurement=measure(s)) for i, s in enumerate(high)]
    assert is_hopeless(replace(PROBLEM, cap=Cap(1.0, "mean")), trials)
    reachable = replace(PROBLEM, cap=Cap(5.0, "mean"))  # all four are more than a quarter above it
    assert not is_hopeless(reachable, trials)
    unconfirmed = judge(reachable, trials).unconfirmed
    assert unconfirmed is not None
    assert physics(unconfirmed)[1] <= 5.5
