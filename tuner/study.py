"""A study: the loop from question to recommended setting."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from devices.device import Access, BurstPlan, Device, EventSink, WorkloadSpec
from devices.errors import DeviceError, InputError
from devices.measurement import Measurement, Statistic, Status, as_failed, fault
from devices.profile import Profile
from tuner.checks import check_cap, check_name, check_numbers, check_prior, is_count
from tuner.evidence import Evidence, pool
from tuner.goal import Cap, find_goal
from tuner.outcome import Outcome, Stopped, assess
from tuner.problem import Problem
from tuner.recommend import Verdict, best_within, comparison, is_hopeless, judge
from tuner.record import metadata_of
from tuner.space import Space
from tuner.specification import require_same, specify, study_name
from tuner.store import MemoryStore, Store, open_store
from tuner.strategies import DEFAULT_STRATEGY, Strategy, open_strategy
from tuner.target import AUTO_PRESET, open_target
from tuner.trial import Role, Trial, TrialState

DEFAULT_BURSTS = 25
RETRIED = frozenset({Status.THROTTLED, Status.CLOCK_NOT_APPLIED, Status.CRASHED, Status.ABORTED})
MAX_ATTEMPTS = 2
MAX_FAILURES_IN_A_ROW = 5


@dataclass(frozen=True)
class Progress:
    """Told after every burst: the trial just measured, and where the study stands."""

    trial: Trial
    bursts: int
    budget: int
    best: Evidence | None


ProgressSink = Callable[[Progress], None]


class Study:
    """One tuning session. Resumes where it stopped if its store holds it; use as a context manager, or call `close`.

    Args:
        device: A device, or its name (`cpu`: this machine; `jetson-orin`: emulated where no such board is here).
        workload: A workload's name or specification.
        goal: `throughput` or `energy`.
        cap_w: The cap in watts, or None.
        cap_on: The statistic of power the cap holds on; None: p95, else peak, else mean, whichever the device gives.
        strategy: One of `tuner.strategies.STRATEGIES`, or a strategy.
        bursts: Budget; confirmation counts.
        seed: Of strategy and, for a board's name, of the emulated noise.
        name: Of the study; None: made of device, workload, goal and cap.
        store: A store, its location, or None: in memory.
        fresh: Start anew; an earlier study of that name is kept under another.
        plan: The burst protocol; its cap and statistic are set from the arguments above.
        preset: For a board's name: what a power mode pins; `auto` takes the best predicted one.
        search: For a device's name: knobs to search besides those it always searches.
        values: For a device's name: lists of values that replace a knob's own.
        python: For a device's name: path of the Python that trains.
        baseline: Whether the setting people use without a tuner is measured too, to compare with.
        prior: Records of the same device or workload, to learn from before the first burst.

    Raises:
        InputError: a wrong name or value, a cap without a meter, a changed specification, a study in use.
        StoreError: the store cannot be used.
    """

    def __init__(
        self,
        device: Device | str,
        workload: WorkloadSpec | str = "resnet18",
        *,
        goal: str = "throughput",
        cap_w: float | None = None,
        cap_on: Statistic | None = None,
        strategy: Strategy | str = DEFAULT_STRATEGY,
        bursts: int = DEFAULT_BURSTS,
        seed: int = 0,
        name: str | None = None,
        store: Store | str | None = None,
        fresh: bool = False,
        plan: BurstPlan | None = None,
        preset: str = AUTO_PRESET,
        search: Sequence[str] = (),
        values: Mapping[str, Sequence[float]] | None = None,
        python: str | None = None,
        baseline: bool = True,
        prior: Sequence[Profile] = (),
    ) -> None:
        check_numbers(bursts, seed, cap_w, cap_on)
        self.workload = WorkloadSpec(workload) if isinstance(workload, str) else workload
        found_goal = find_goal(goal)
        self._strategy = open_strategy(strategy) if isinstance(strategy, str) else strategy
        with contextlib.ExitStack() as stack:
            if isinstance(device, str):
                cap = Cap(cap_w, cap_on or "p95") if cap_w is not None else None
                device, _ = open_target(
                    device,
                    self.workload,
                    found_goal,
                    cap,
                    preset=preset,
                    search=search,
                    values=values,
                    seed=seed,
                    access=Access(python=python),
                )
                stack.callback(device.close)
            self._device = device
            self.info = device.describe()
            self.problem = Problem(
                Space.of(self.info),
                found_goal,
                check_cap(self.info, found_goal, cap_w, cap_on),
                seed,
                check_prior(self.info, prior),
                self.info.name,
                metadata_of(self.info, self.workload, f"study {name or ''}"),
            )
            self.plan = plan or BurstPlan.for_device(self.info)
            if self.problem.cap:
                self.plan = replace(self.plan, cap_w=self.problem.cap.watts, statistic=self.problem.cap.statistic)
            self.bursts = bursts
            self._compared = baseline
            self.name = check_name(study_name(self.info, self.workload, goal, cap_w) if name is None else name)
            self._stop = threading.Event()
            if isinstance(store, Store):
                self._store = store
            else:
                self._store = open_store(store) if store else MemoryStore()
                stack.callback(self._store.close)
            stack.enter_context(self._store.lock(self.name))
            specification = specify(self.info, self.workload, self.problem, self._strategy.name, self.plan)
            stored = self._store.load(self.name)
            if stored is not None and fresh:
                self._store.archive(self.name)
                stored = None
            if stored is None:
                stored = self._store.create(self.name, specification)
            require_same(self.name, stored.specification, specification)
            self.specification = specification
            self.resumed = bool(stored.trials)
            self._trials = list(stored.trials)
            self._state = stored.strategy_state
            self._closed = False
            self._closing = stack.pop_all()

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in the order of their index."""
        return tuple(self._trials)

    @property
    def bursts_made(self) -> int:
        """Bursts spent, repeated attempts and the pending ones included."""
        return sum(max(trial.attempts, 1) for trial in self._trials)

    @property
    def estimate_s(self) -> tuple[float, float]:
        """Seconds that the bursts of the budget which are left take at least and at most, without loading and starts.
        Most studies end sooner."""
        left = max(self.bursts - self.bursts_made, 0)
        low_s, high_s = self.plan.span_s(bool(self.info.statistics))
        return left * low_s, left * high_s

    # ---- ask and tell

    def ask(self, n: int = 1) -> list[Trial]:
        """Up to `n` trials to measure: those asked before and not told yet, then new ones. Empty: converged.

        They are in the store when this returns.

        Raises:
            InputError: `n` is no whole number of 1 or more.
        """
        self._require_open()
        if not is_count(n):
            raise InputError(f"a study is asked for one trial or more, not {n!r}", hint="ask(1)")
        pending = [trial for trial in self._trials if trial.pending][:n]
        if len(pending) < n:
            suggestion = self._strategy.suggest(self.problem, self._trials, n - len(pending), self._state)
            first = len(self._trials)
            asked = [Trial(first + i, dict(setting)) for i, setting in enumerate(suggestion.settings)]
            self._commit(asked, suggestion.state)
            pending += asked
        return pending

    def tell(self, trial: Trial, measurement: Measurement) -> Trial:
        """Record the measurement of a trial that was asked; it is in the store when this returns.

        A status worth another try leaves the trial pending, once.

        A measurement that cannot be one (0 W, NaN) counts as a crashed burst.

        Raises:
            InputError: the trial is none of this study's, or was told before; a measurement of another source.
        """
        self._require_open()
        waiting = {t.index: t for t in self._trials if t.pending}
        known = waiting.get(trial.index)
        if known is None or dict(known.setting) != dict(trial.setting):
            raise InputError(f"trial {trial.index} of study '{self.name}' is not waiting for a measurement")
        if measurement.source != self.info.source:
            raise InputError(f"the study's measurements are {self.info.source}, this one is {measurement.source}")
        reason = fault(measurement)
        if reason is not None:
            measurement = as_failed(measurement, reason)
        if known.measurement is not None:  # an earlier attempt cost time and energy too
            measurement = replace(
                measurement,
                cost_s=measurement.cost_s + known.measurement.cost_s,
                cost_j=measurement.cost_j + known.measurement.cost_j,
            )
        attempts = known.attempts + 1
        if measurement.status in RETRIED and attempts < MAX_ATTEMPTS and self.info.source != "replayed":
            state = TrialState.ASKED
        elif measurement.status in (Status.OK, Status.OVER_CAP, Status.OOM):
            state = TrialState.DONE
        else:
            state = TrialState.ABANDONED
        told = replace(known, measurement=measurement, attempts=attempts, state=state)
        self._store.update(self.name, told)
        self._trials[trial.index] = told
        return told

    def _commit(self, trials: Sequence[Trial], state: str | None) -> None:
        if trials:
            self._store.ask(self.name, trials, state)
            self._trials += trials
            self._state = state

    # ---- the loop

    def run(self, on_progress: ProgressSink | None = None, on_event: EventSink | None = None) -> Outcome:
        """Measure until the strategy has converged, nothing can be feasible, or the budget is spent; then confirm.

        Args:
            on_progress: Called after every burst.
            on_event: Called while one runs, with the device's events and their `setting`; at most twice a second.

        Raises:
            DeviceError: the device was lost, or failed burst after burst. The study can be resumed.
            StoreError: a result could not be written. Nothing measured before is lost.
        """
        self._require_open()
        stopped = Stopped.INTERRUPTED
        while not self._stop.is_set():
            trial, ended = self._next()
            if trial is None:
                stopped = ended
                break
            if not self._stop.is_set():  # asked to stop while the strategy was thinking
                self._measure(trial, on_progress, on_event)
        self._stop.clear()
        outcome = self.outcome(stopped)
        self.keep(outcome.to_json())
        return outcome

    def keep(self, document: Mapping[str, Any]) -> None:
        """Store the document the study ended with, for `tune show`.

        Raises:
            StoreError: it could not be written.
        """
        self._store.finish(self.name, document)

    def _require_open(self) -> None:
        if self._closed:
            raise InputError(f"the study '{self.name}' is closed", hint="open it again")

    def request_stop(self) -> None:
        """Finish the burst that runs, then end. May be called from a signal handler."""
        self._stop.set()

    def abort(self) -> None:
        """End the burst that runs and the study; its trial is measured again on resuming."""
        self._stop.set()
        self._device.abort()

    def outcome(self, stopped: Stopped) -> Outcome:
        """Where the study stands."""
        return assess(self.name, self.info, self.problem, self._trials, stopped, self._judge())

    def _next(self) -> tuple[Trial | None, Stopped]:
        """The trial to measure next; None with the reason when the study has ended."""
        pending = next((trial for trial in self._trials if trial.pending), None)
        if pending is not None:
            return pending, Stopped.INTERRUPTED
        if is_hopeless(self.problem, self._trials):
            return None, Stopped.INFEASIBLE
        converged = False
        for limit in (self.bursts - self._reserve(), self.bursts):  # what confirmation leaves over goes to the search
            if self.bursts_made < limit and not converged:
                asked = self.ask()
                if asked:
                    return asked[0], Stopped.INTERRUPTED
                converged = True
            follow_up = self._follow_up() if self.bursts_made < self.bursts else None
            if follow_up is not None:
                self._commit([follow_up], self._state)
                return follow_up, Stopped.INTERRUPTED
        if not converged:
            return None, Stopped.BUDGET
        feasible = best_within(self.problem, pool(self.problem, self._trials).values()) is not None
        return None, Stopped.CONVERGED if feasible else Stopped.INFEASIBLE

    def _reserve(self) -> int:
        """Bursts kept for confirmation, which exact measurements do not need, and for an unknown baseline."""
        valid = [m for trial in self._trials if (m := trial.valid) is not None]
        exact = valid and all((e := self.problem.goal.estimate(m)) is None or e.sem == 0 for m in valid)
        default = self.info.default_setting
        unknown = (
            self._compared and default is not None and not any(dict(t.setting) == dict(default) for t in self._trials)
        )
        least = 0 if exact else min(self.bursts - 1, 1)
        return max(min((0 if exact else 2) + unknown, self.bursts // 4), least)

    def _follow_up(self) -> Trial | None:
        """The burst that confirms the setting to be recommended, or measures what it is compared with; else None."""
        verdict = self._judge()
        index = len(self._trials)
        tried = [self.problem.space.key(trial.setting) for trial in self._trials]
        if verdict.unconfirmed is not None:
            known = self.problem.space.key(verdict.unconfirmed) in tried
            return Trial(index, dict(verdict.unconfirmed), role=Role.CONFIRM if known else Role.SEARCH)
        if verdict.recommended is None or not self._compared:
            return None
        setting = comparison(self.problem, self._trials, self.info.default_setting)
        if setting is None or self.problem.space.key(setting) in tried:
            return None
        return Trial(index, dict(setting), role=Role.BASELINE)

    def _judge(self) -> Verdict:
        strategy = self._strategy
        return judge(self.problem, self._trials, confirm=strategy.confirms, repeat=strategy.repeats)

    def _measure(self, trial: Trial, on_progress: ProgressSink | None, on_event: EventSink | None) -> None:
        earlier = sum(t.attempts for t in self._trials[: trial.index] if t.setting == trial.setting)
        running = replace(trial, state=TrialState.RUNNING)
        self._store.update(self.name, running)
        self._trials[trial.index] = running
        if self._stop.is_set():  # asked while it was stored
            return
        plan = replace(self.plan, replicate=earlier + trial.attempts)
        measurement = self._device.measure(
            trial.setting,
            self.workload,
            plan,
            None if on_event is None else lambda event: on_event({**event, "setting": dict(trial.setting)}),
        )
        if measurement.status is Status.ABORTED and self._stop.is_set():
            return  # the user's own abort says nothing about the setting
        told = self.tell(running, measurement)
        if on_progress is not None:
            best = best_within(self.problem, pool(self.problem, self._trials).values())
            on_progress(Progress(told, self.bursts_made, self.bursts, best))
        self._check_failures()

    def _check_failures(self) -> None:
        if self.info.source == "replayed":  # recorded failures; the next setting may be fine
            return
        recent = [trial for trial in self._trials if not trial.pending][-MAX_FAILURES_IN_A_ROW:]
        if len(recent) == MAX_FAILURES_IN_A_ROW and all(trial.state is TrialState.ABANDONED for trial in recent):
            last = recent[-1].measurement
            raise DeviceError(
                f"the last {len(recent)} bursts failed: {last.status.value if last else ''}"
                f"{': ' + last.reason if last and last.reason else ''}",
                hint="mend the cause, then repeat the command: the study goes on",
            )

    # ---- the end

    def close(self) -> None:
        """Free the study for other processes, and close the device if this study opened it. May be called again."""
        self._closed = True
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
