"""One study of a comparison, run and scored."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence

from devices.device import BurstPlan, EventSink, Setting, WorkloadSpec
from devices.errors import DeviceError, TunerError, UnsupportedError
from devices.measurement import Measurement
from devices.replay import STANDARD_WINDOW_S, ReplayDevice
from tuner.arena.contest import Contest, Table, Task
from tuner.arena.result import Run, Skipped
from tuner.arena.score import Burst, figures_of, frozen_of
from tuner.arena.truth import Truth
from tuner.models.threads import single_threaded
from tuner.outcome import Stopped
from tuner.problem import Problem
from tuner.strategies import Strategy, Suggestion, open_strategy
from tuner.study import Study
from tuner.trial import Trial
from tuner.units import watts


class ArenaError(TunerError):
    """A study of a comparison, or the process it ran in, failed in a way that is no answer."""

    kind = "arena"


class MeteredReplay(ReplayDevice):
    """A replay that keeps the bursts it was asked for, repeated attempts and lengths included.

    Attributes:
        bursts: In the order made.
    """

    def __init__(self, table: Table, *, seed: int, noise_throughput: float, noise_power: float) -> None:
        super().__init__(table.profile, seed=seed, noise_throughput=noise_throughput, noise_power=noise_power)
        self.bursts: list[Burst] = []

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        found = super().measure(setting, workload, plan, on_event)
        length = max(round(plan.min_s / STANDARD_WINDOW_S), 1)
        self.bursts.append(Burst(dict(setting), length, found.cost_s, found.cost_j))
        return found


def time_suggestions(strategy: Strategy) -> list[float]:
    """Time the strategy's `suggest` from now on, whatever else it has; the list gets the seconds of each call."""
    seconds: list[float] = []
    suggest = strategy.suggest

    def timed(problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        begin = time.perf_counter()
        try:
            return suggest(problem, trials, n, state)
        finally:
            seconds.append(time.perf_counter() - begin)

    object.__setattr__(strategy, "suggest", timed)  # it stays what it is for whoever asks; frozen ones take it too
    return seconds


def task_words(contest: Contest, task: Task) -> str:
    """`the study of sobol on v100.csv (7 W, seed 3)`."""
    cap = "no cap" if task.cap_w is None else watts(task.cap_w)
    return f"the study of {task.strategy} on {contest.tables[task.table].name} ({cap}, seed {task.seed})"


def run_task(contest: Contest, task: Task) -> Run | Skipped:
    """Make one study and score it. Depends on its arguments alone, except for the seconds of the suggestions.

    Raises:
        ArenaError: it failed.
    """
    table = contest.tables[task.table]
    try:
        with single_threaded():
            return _run(contest, task, table)
    except UnsupportedError as error:
        reason = error.message + (f" ({error.hint})" if error.hint else "")
        return Skipped(task.strategy, table.name, reason)
    except Exception as error:
        if os.environ.get("TUNER_DEBUG"):
            traceback.print_exc()
        raise ArenaError(
            f"{task_words(contest, task)} failed: {type(error).__name__}: {error}",
            hint="TUNER_DEBUG=1 shows where",
        ) from error


def _run(contest: Contest, task: Task, table: Table) -> Run:
    statistic = contest.statistic(table)
    strategy = open_strategy(task.strategy)
    suggest_s = time_suggestions(strategy)
    device = MeteredReplay(
        table, seed=task.seed, noise_throughput=contest.noise_throughput, noise_power=contest.noise_power
    )
    study = Study(
        device,
        table.profile.metadata.workload or table.name,
        cap_w=task.cap_w,
        cap_on=statistic,
        strategy=strategy,
        bursts=contest.budget(task),
        seed=task.seed,
        name="arena",
        baseline=False,
        prior=[record.profile for record in contest.transfer],
    )
    with study:
        try:
            outcome = study.run()
        except DeviceError:  # a recorded emulation whose bursts fail in a row
            outcome = study.outcome(Stopped.INTERRUPTED)
    truth = Truth(table.profile, task.cap_w, statistic or "mean")
    recommended = outcome.verdict.recommended
    return Run(
        profile=table.name,
        cap_w=task.cap_w,
        cap_on=statistic,
        strategy=task.strategy,
        seed=task.seed,
        source=outcome.info.source,
        frozen=None if recommended is None else frozen_of(recommended.setting, truth),
        suggest_s=tuple(suggest_s),
        stopped=(outcome.stopped or Stopped.INTERRUPTED).value,
        **figures_of(device.bursts, truth),
    )
