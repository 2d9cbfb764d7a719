"""Which batch sizes fit, after some did and some did not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting
from devices.measurement import Measurement, Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from tests.tuner.strategies.searching import CLOCK, answer
from tests.tuner.toys import failed
from tuner.goal import GOALS, Cap
from tuner.memory import Memory
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.strategies.strategy import Strategy
from tuner.testing import drive

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FINE = Knob(BATCH_KNOB, tuple(range(1, 513)))


def known(*bursts: tuple[float, Status]) -> Memory:
    return Memory.of(bursts)


def test_everything_fits_until_something_did_not() -> None:
    nothing = known((64, Status.OK), (128, Status.CRASHED))
    assert nothing.open(POWERS) == list(POWERS)
    assert nothing.chance(np.array([1.0, 1e6])) == pytest.approx(1.0)


@pytest.mark.parametrize("status", [Status.OK, Status.OVER_CAP, Status.THROTTLED])
def test_the_limit_is_found_by_bisection(status: Status) -> None:
    memory = known((64, status), (256, Status.OOM), (512, Status.OOM))
    assert memory == Memory(64, 256)
    assert memory.open(range(1, 513)) == list(range(1, 129))
    assert memory.chance(np.array([1.0, 64.0, 128.0, 255.9, 256.0, 300.0])) == pytest.approx(
        [1, 1, 0.5, 0, 0, 0], abs=0.01
    )


def test_something_in_between_is_always_left() -> None:
    assert known((64, Status.OK), (256, Status.OOM)).open((64, 200, 250, 256)) == [64, 200]
    assert known((64, Status.OK), (128, Status.OOM)).open(POWERS) == [1, 2, 4, 8, 16, 32, 64]
    assert known((1, Status.OOM)).open(POWERS) == []
    assert known((2, Status.OOM)).open(POWERS) == [1]


def test_where_nothing_fitted_half_of_it_is_next() -> None:
    assert known((256, Status.OOM)).open(POWERS) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert known((256, Status.OOM)).open((200, 240, 256)) == [200]


def test_a_larger_batch_that_fitted_at_another_time_does_not_count() -> None:
    assert known((300, Status.OK), (100, Status.OK), (200, Status.OOM)) == Memory(100, 200)


def problem(*prior: Profile) -> Problem:
    space = Space.of(DeviceInfo("board", "emulated", (CLOCK, FINE)))
    return Problem(space, GOALS["throughput"], Cap(9.0, "mean"), prior=prior)


def record(fitted: int, did_not: int) -> Profile:
    rows = [(fitted, answer(10.0, 5.0)), (fitted // 2, answer(9.0, 5.0)), (did_not, failed(Status.OOM))]
    settings = [({CLOCK.name: 300, BATCH_KNOB: batch}, measured) for batch, measured in rows]
    return Profile(
        ProfileMetadata(),
        (CLOCK.name, BATCH_KNOB),
        tuple(ProfileRow.from_measurement(setting, measured) for setting, measured in settings),
    )


def test_a_record_says_what_hardly_fits_but_closes_nothing() -> None:
    of_a_record = problem(record(64, 128))
    settings: list[Setting] = [{CLOCK.name: 300, BATCH_KNOB: batch} for batch in (64, 128, 512)]
    assert of_a_record.fits([], settings) == pytest.approx([1, 0.1, 0.1])
    assert len(of_a_record.open_space([])) == len(of_a_record.space)


def test_a_record_is_forgotten_where_more_fits() -> None:
    of_a_record = problem(record(64, 128))
    trials, _ = drive(open_strategy("grid"), replace(of_a_record, space=fixed(256)), lambda _: answer(10.0, 5.0), 1)
    assert of_a_record.fits(trials, [{CLOCK.name: 300, BATCH_KNOB: 512}]) == pytest.approx(1)


def fixed(batch: int) -> Space:
    return Space.of(DeviceInfo("board", "emulated", (CLOCK, Knob(BATCH_KNOB, (batch,)))))


def board(setting: Setting) -> Measurement:
    """Holds 170 samples; the larger the batch, the faster."""
    clock, batch = setting[CLOCK.name], setting[BATCH_KNOB]
    if batch > 170:
        return failed(Status.OOM)
    return answer(batch / (0.05 + batch * 3 / clock), 3 + clock / 100)


@pytest.mark.parametrize("name", ["cap-aware", "analytic", "coordinate-descent", "random", "sobol", "taste"])
def test_a_fine_list_costs_few_bursts_out_of_memory(name: str) -> None:
    strategy: Strategy = open_strategy(name)
    trials, _ = drive(strategy, problem(), board, 25)
    failures = [trial.setting[BATCH_KNOB] for trial in trials if trial.status is Status.OOM]
    assert len(failures) <= math.log2(512 / 170) + 4
    assert failures == sorted(failures, reverse=True)
    assert len(trials) - len(failures) >= 2


def test_a_larger_batch_than_any_is_found_by_the_default() -> None:
    trials, _ = drive(open_strategy("cap-aware"), problem(), board, 25)
    fastest = max(trial.measurement.throughput or 0.0 for trial in trials if trial.measurement)
    assert fastest > 0.97 * (board({CLOCK.name: 600, BATCH_KNOB: 170}).throughput or 0.0)
