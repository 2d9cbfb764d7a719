"""Tasks spread over processes of their own. Results do not depend on how many there are."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from devices.errors import TunerError
from tuner.arena.study_run import ArenaError

Context = TypeVar("Context")
TaskT = TypeVar("TaskT")
Answer = TypeVar("Answer")

_SECONDS_TO_END = 5.0  # for a process that was told to


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Context, TaskT], Answer],
    context: Context,
    tasks: Sequence[TaskT],
    jobs: int,
    words: Callable[[Context, TaskT], str] = lambda _, task: f"task {task}",
) -> Iterator[tuple[int, Answer]]:
    """Each task's index with `function(context, task)`, in the order they end. One job: in this process.

    `function` must be a module's own, and everything must pickle. Closing the iterator, an error and Ctrl-C end the
    processes at once. `words` says which task it is, where its process ended.

    Raises:
        TunerError: as `function` raised it.
        ArenaError: a process ended by itself.
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        for index, task in enumerate(tasks):
            yield index, function(context, task)
        return
    waiting = iter(enumerate(tasks))
    workers: dict[Connection[Any, Any], SpawnProcess] = {}
    running: dict[Connection[Any, Any], tuple[int, TaskT]] = {}
    try:
        with _uninterrupted():
            for _ in range(jobs):
                connection, process = _start(function, context)
                workers[connection] = process
        for connection in workers:
            _hand_out(connection, waiting, running)
        while running:
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)  # connections are all it was given
                index, task = running.pop(ready)
                try:
                    answer = ready.recv()
                except (EOFError, OSError):
                    raise _ended(workers[ready], words(context, task)) from None
                if isinstance(answer, TunerError):
                    raise answer
                _hand_out(ready, waiting, running)
                yield index, answer[0]
    finally:
        _end(workers)


def _hand_out(
    connection: Connection[Any, Any],
    waiting: Iterator[tuple[int, TaskT]],
    running: dict[Connection[Any, Any], tuple[int, TaskT]],
) -> None:
    """Give a process its next task, if there is one."""
    following = next(waiting, None)
    if following is not None:
        running[connection] = following
        with contextlib.suppress(OSError):  # it has ended: reading its answer will tell
            connection.send(following[1])


def _start(function: Callable[[Context, TaskT], Answer], context: Context) -> tuple[Connection[Any, Any], SpawnProcess]:
    spawn = multiprocessing.get_context("spawn")  # torch and forked threads do not go together
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_work, args=(theirs, function, context), daemon=True)
    process.start()
    theirs.close()  # so that its end closes the pipe
    return ours, process


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes started meanwhile never see Ctrl-C, which a terminal sends to all: this process ends them. An
    interruption of this process waits until then."""
    resource_tracker.ensure_running()  # it would lift the mask when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection[Any, Any], function: Callable[[Any, Any], Any], context: Any) -> None:
    """The life of a process: task in, answer out, until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = connection.recv()
            try:
                answer: Any = (function(context, task),)
            except TunerError as error:
                answer = error
            connection.send(answer)


def _ended(process: SpawnProcess, words: str) -> ArenaError:
    process.join(_SECONDS_TO_END)
    code = process.exitcode or 0
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return ArenaError(
        f"the process that ran {words} ended by itself: {how}",
        hint="if memory ran short, fewer --jobs help",
    )


def _end(workers: dict[Connection[Any, Any], SpawnProcess]) -> None:
    for process in workers.values():
        process.terminate()
    for connection, process in workers.items():
        connection.close()
        process.join(_SECONDS_TO_END)
        if process.is_alive():
            process.kill()
            process.join()
