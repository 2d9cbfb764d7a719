"""A comparison run: every study of a contest, in its order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from devices.errors import InputError, TunerError
from tuner.arena.contest import Contest
from tuner.arena.pool import run_all, usable_cores
from tuner.arena.result import Run, Skipped
from tuner.arena.study_run import run_task, task_words

RunSink = Callable[[int, int, Run | Skipped], None]
"""Told after every study: how many are done, of how many, and the one just made."""


@dataclass(frozen=True)
class Compared:
    """The result of a comparison.

    Attributes:
        contest: What was asked for.
        runs: The studies made, in the order of the contest's tasks.
        skipped: Strategies that do not apply to a profile, each once.
        total: Studies that were to be made.
        interrupted: Whether Ctrl-C ended it; `runs` are those finished before.
        failed: Whether an error ended it; the same.
    """

    contest: Contest
    runs: tuple[Run, ...]
    skipped: tuple[Skipped, ...]
    total: int
    interrupted: bool = False
    failed: bool = False

    @property
    def partial(self) -> bool:
        """Whether it ended before all studies were made."""
        return self.interrupted or self.failed

    def to_json(self) -> list[dict[str, Any]]:
        """The document of `tune compare --json`."""
        return [run.to_json() for run in self.runs]

    @property
    def exit_status(self) -> int:
        """0: compared; 1: no strategy applies to any profile; 130: interrupted."""
        if self.interrupted:
            return 130
        return 0 if self.runs else 1


def compare(contest: Contest, jobs: int | None = None, on_run: RunSink | None = None) -> Compared:
    """Make all studies of a contest.

    Args:
        contest: Which.
        jobs: Processes; None: one a usable core; 1: in this process.
        on_run: Called after every study, in the order they end.

    Raises:
        InputError: jobs below 1.
        ArenaError: a study or a process failed; `state["compared"]` holds what was finished before.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"a comparison needs one job or more, not {jobs}", hint="--jobs 2")
    tasks = contest.tasks()
    made: dict[int, Run | Skipped] = {}
    cores = usable_cores() if jobs is None else jobs
    try:
        for index, found in run_all(run_task, contest, tasks, cores, task_words):
            made[index] = found
            if on_run is not None:
                on_run(len(made), len(tasks), found)
    except KeyboardInterrupt:
        return _compared(contest, made, len(tasks), interrupted=True)
    except TunerError as error:
        error.state["compared"] = _compared(contest, made, len(tasks), failed=True)
        raise
    return _compared(contest, made, len(tasks))


def _compared(contest: Contest, made: Mapping[int, Run | Skipped], total: int, **ended: bool) -> Compared:
    in_order = [made[index] for index in sorted(made)]
    return Compared(
        contest,
        tuple(found for found in in_order if isinstance(found, Run)),
        tuple(dict.fromkeys(found for found in in_order if isinstance(found, Skipped))),
        total,
        **ended,
    )
