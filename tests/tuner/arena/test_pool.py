from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import closing

import pytest

from devices.errors import InputError
from tuner.arena import ArenaError
from tuner.arena.pool import run_all, usable_cores


def times(factor: int, number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return factor * number


def misbehave(context: str, number: int) -> int:
    if number == 2 and context == "refuse":
        raise InputError("a sentence", hint="a hint")
    if number == 2 and context == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if context == "sleep":
        time.sleep(60)
    return number


@pytest.mark.parametrize("jobs", [1, 3, 50])
def test_every_task_is_answered_once(jobs: int) -> None:
    found = dict(run_all(times, 10, range(7) if jobs < 50 else range(3), jobs))
    assert found == {i: 10 * i for i in range(len(found))}
    assert multiprocessing.active_children() == []


def test_nothing_to_do() -> None:
    assert list(run_all(times, 10, [], 4)) == []
    assert usable_cores() >= 1


def test_an_error_of_ours_comes_through() -> None:
    with pytest.raises(InputError, match="a sentence") as error:
        list(run_all(misbehave, "refuse", range(4), 2))
    assert error.value.hint == "a hint"
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_is_one_clear_error() -> None:
    with pytest.raises(ArenaError, match="killed by SIGKILL"):
        list(run_all(misbehave, "die", range(4), 2))
    assert multiprocessing.active_children() == []


def test_leaving_ends_the_processes_at_once() -> None:
    begin = time.monotonic()
    with closing(run_all(times, 1, range(1000), 2)) as answers:  # type: ignore[type-var]
        next(answers)
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []
    assert time.monotonic() - begin < 10


def test_the_words_of_a_task_say_what_died() -> None:
    with pytest.raises(ArenaError, match="the process that ran die number 2 ended by itself: killed by SIGKILL"):
        list(run_all(misbehave, "die", range(4), 2, lambda context, number: f"{context} number {number}"))
