from __future__ import annotations

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

pytest.importorskip("optuna")


def best_at(batch: int) -> float:
    """A throughput that rises up to `batch` and falls beyond, as on a Raspberry Pi."""
    return {16: 100.0, 32: 95.0, 8: 90.0, 64: 80.0}.get(batch, 40.0 + batch / 100)


def ceiling(setting: Setting) -> Measurement:
    return Measurement(Status.OK, "emulated", throughput=best_at(int(setting[BATCH_KNOB])), power_mean_w=20.0)


def test_the_clock_stays_at_its_highest_and_the_cap_is_unknown() -> None:
    capped, _ = drive(open_strategy("taste"), toy_problem(cap_w=1.0), toy_measurement, 99)
    free, _ = drive(open_strategy("taste"), toy_problem(cap_w=None), toy_measurement, 99)
    energy, _ = drive(open_strategy("taste"), replace(toy_problem(), goal=GOALS["energy"]), toy_measurement, 99)
    assert [t.setting for t in capped] == [t.setting for t in free] == [t.setting for t in energy]
    assert {trial.setting["gpu_freq_mhz"] for trial in capped} == {600}


def test_other_knobs_stay_at_their_defaults() -> None:
    knobs = (Knob("cpu_threads", (1, 2, 4), 2), Knob(BATCH_KNOB, (1, 2, 4, 8)), Knob("emc_freq_mhz", (204, 665)))
    problem = Problem(Space.of(DeviceInfo("toy", "emulated", knobs)), GOALS["throughput"], Cap(9.0, "mean"))
    trials, _ = drive(open_strategy("taste"), problem, ceiling, 99)
    assert {(t.setting["cpu_threads"], t.setting["emc_freq_mhz"]) for t in trials} == {(2, 665)}
    assert len(trials) == 4


@pytest.mark.parametrize("seed", range(5))
def test_finds_the_ceiling_and_stops_five_bursts_later_at_most(seed: int) -> None:
    problem = toy_problem(clocks=2, batches=9, seed=seed)
    trials, _ = drive(open_strategy("taste"), problem, ceiling, 99)
    assert len(trials) <= 9
    values = [t.measurement.throughput or 0 for t in trials if t.measurement]
    assert max(values) >= 95.0
    assert len(values) == 9 or len(values) - 1 - values.index(max(values)) == 5


def test_the_recorded_line_nearest_to_the_stock_state_is_taken() -> None:
    full = toy_problem().space
    settings = tuple(s for s in full.settings if s["gpu_freq_mhz"] < 600)
    trials, _ = drive(open_strategy("taste"), replace(toy_problem(), space=Space(full.knobs, settings)), ceiling, 99)
    assert {trial.setting["gpu_freq_mhz"] for trial in trials} == {500}


def test_without_a_batch_size_there_is_nothing_to_tune() -> None:
    info = DeviceInfo("toy", "emulated", (Knob("gpu_freq_mhz", (300, 600)),))
    with pytest.raises(UnsupportedError, match="taste tunes the batch size"):
        open_strategy("taste").suggest(Problem(Space.of(info), GOALS["throughput"], None), [])
