from __future__ import annotations

import math
from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting
from devices.errors import UnsupportedError
from devices.measurement import Measurement, Status
from tuner.goal import GOALS, Cap
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.testing import drive, toy_measurement, toy_problem
from tuner.trial import Trial

CLOCKS = 24


def problem_with(*knobs: Knob, cap_w: float | None = 9.0) -> Problem:
    cap = None if cap_w is None else Cap(cap_w, "mean")
    return Problem(Space.of(DeviceInfo("toy", "emulated", knobs)), GOALS["throughput"], cap)


def holding(problem: Problem, batch: int) -> list[float]:
    """The clocks whose power holds the cap at that batch size."""
    assert problem.cap is not None
    settings = [s for s in problem.space.settings if s[BATCH_KNOB] == batch]
    return [s["gpu_freq_mhz"] for s in settings if (toy_measurement(s).power_mean_w or 99) <= problem.cap.watts]


@pytest.mark.parametrize("cap_w", [5.5, 9.0, 12.3, 30.0, 80.0, 150.0])
def test_finds_the_highest_clock_under_the_cap_in_log2_bursts(cap_w: float) -> None:
    problem = toy_problem(clocks=CLOCKS, cap_w=cap_w)
    trials, _ = drive(open_strategy("frequency-only"), problem, toy_measurement, 99)
    assert len(trials) <= 2 + math.log2(CLOCKS)
    assert {trial.setting[BATCH_KNOB] for trial in trials} == {4}  # the middle of 1 to 16: no default is known
    assert trials[0].setting["gpu_freq_mhz"] == 300 + 100 * (CLOCKS - 1)
    found = [t.setting["gpu_freq_mhz"] for t in trials if t.measurement and (t.measurement.power_mean_w or 99) <= cap_w]
    assert max(found) == max(holding(problem, 4))


def test_a_cap_below_everything_ends_at_the_lowest_clock() -> None:
    trials, _ = drive(open_strategy("frequency-only"), toy_problem(clocks=CLOCKS, cap_w=1.0), toy_measurement, 99)
    assert trials[-1].setting["gpu_freq_mhz"] == 300
    assert len(trials) <= 2 + math.log2(CLOCKS)


def test_without_a_cap_one_burst_at_the_highest_clock() -> None:
    trials, _ = drive(open_strategy("frequency-only"), toy_problem(cap_w=None), toy_measurement, 99)
    assert [trial.setting["gpu_freq_mhz"] for trial in trials] == [600]


def test_defaults_are_kept_and_a_batch_that_does_not_fit_is_lowered() -> None:
    problem = problem_with(
        Knob("emc_freq_mhz", (204, 665, 2133), 665),
        Knob("gpu_freq_mhz", (300, 400, 500, 600), 500),
        Knob(BATCH_KNOB, (1, 2, 4, 8, 16), 8),
    )
    trials, _ = drive(open_strategy("frequency-only"), problem, lambda s: toy_measurement(s, oom_from=8), 99)
    assert [trial.setting[BATCH_KNOB] for trial in trials[:2]] == [8, 4]
    assert trials[0].status is Status.OOM
    assert {trial.setting[BATCH_KNOB] for trial in trials[1:]} == {4}
    assert {trial.setting["emc_freq_mhz"] for trial in trials} == {665}


def test_the_gpu_clock_goes_before_the_limit_and_that_before_the_cpu_clock() -> None:
    knobs = [Knob("cpu_freq_mhz", (1, 2)), Knob("power_limit_w", (10, 20)), Knob("gpu_freq_mhz", (300, 600))]

    def measure(setting: Setting) -> Measurement:
        return Measurement(Status.OK, "emulated", throughput=1.0, power_mean_w=99.0)

    for lowered in ("gpu_freq_mhz", "power_limit_w", "cpu_freq_mhz"):
        trials, _ = drive(open_strategy("frequency-only"), problem_with(*knobs), measure, 9)
        for knob in knobs:
            tried = {trial.setting[knob.name] for trial in trials}
            assert tried == (set(knob.values) if knob.name == lowered else {knob.values[-1]})
        knobs = [knob for knob in knobs if knob.name != lowered]


def test_nothing_to_lower_is_said() -> None:
    with pytest.raises(UnsupportedError, match="frequency-only lowers a clock"):
        open_strategy("frequency-only").suggest(problem_with(Knob(BATCH_KNOB, (1, 2))), [])


def test_a_pending_burst_counts_as_one_above_the_cap() -> None:
    problem = toy_problem(clocks=CLOCKS)
    top = open_strategy("frequency-only").suggest(problem, []).settings[0]
    both = open_strategy("frequency-only").suggest(problem, [Trial(0, top)]).settings[0]
    assert both["gpu_freq_mhz"] < top["gpu_freq_mhz"]


def test_a_crash_is_passed_by() -> None:
    problem = replace(toy_problem(clocks=CLOCKS), cap=None)

    def measure(setting: Setting) -> Measurement:
        if setting["gpu_freq_mhz"] > 1000:
            return Measurement(Status.CRASHED, "emulated", reason="unstable")
        return toy_measurement(setting)

    trials, _ = drive(open_strategy("frequency-only"), problem, measure, 99)
    assert max(t.setting["gpu_freq_mhz"] for t in trials if t.valid) == 1000
