"""Contract suites of the seams Strategy and Store, for pytest: subclass one and give its fixture.

class TestMine(StrategyContract):
    @pytest.fixture
    def strategy(self): return MyStrategy()
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from devices.device import BATCH_KNOB, DeviceInfo, Knob, Setting
from devices.errors import InputError, StudyInUseError
from devices.measurement import Estimate, Measurement, Status
from tuner.goal import GOALS, Cap
from tuner.problem import Problem
from tuner.space import Space
from tuner.store import Store
from tuner.strategies.strategy import Strategy
from tuner.trial import Role, Trial, TrialState


def toy_problem(*, clocks: int = 4, batches: int = 5, cap_w: float | None = 9.0, seed: int = 0) -> Problem:
    """A small space of clock and batch size under a cap that about half of it holds."""
    info = DeviceInfo(
        name="toy",
        source="emulated",
        knobs=(
            Knob("gpu_freq_mhz", tuple(300 + 100 * i for i in range(clocks))),
            Knob(BATCH_KNOB, tuple(2**i for i in range(batches))),
        ),
    )
    return Problem(Space.of(info), GOALS["throughput"], Cap(cap_w, "mean") if cap_w else None, seed)


def toy_measurement(setting: Setting, *, sem: float = 0.0, oom_from: float = math.inf) -> Measurement:
    """What a burst at `setting` of `toy_problem` finds."""
    clock, batch = setting["gpu_freq_mhz"] / 600, setting[BATCH_KNOB]
    if batch >= oom_from:
        return Measurement(Status.OOM, "emulated", reason="toy memory is full", cost_s=5.0)
    throughput = batch / (0.01 + 0.01 / clock + batch * 0.01 / clock)
    power_w = 3 + 4 * clock + 3 * clock**3 * batch / (batch + 4)
    return Measurement(
        Status.OK,
        "emulated",
        throughput=throughput,
        throughput_sem=sem * throughput,
        power_mean_w=power_w,
        power_mean_sem_w=sem * power_w,
        energy_per_sample_j=power_w / throughput,
        duration_s=10.0,
        cost_s=10.0,
        cost_j=10 * power_w,
    )


def drive(
    strategy: Strategy,
    problem: Problem,
    measure: Callable[[Setting], Measurement],
    bursts: int,
    times_s: list[float] | None = None,
) -> tuple[list[Trial], str | None]:
    """Run `strategy` until it converges or `bursts` are made; its trials and its last state.

    The seconds of each suggestion are appended to `times_s`.
    """
    trials: list[Trial] = []
    state: str | None = None
    while len(trials) < bursts:
        begin = time.monotonic()
        suggestion = strategy.suggest(problem, trials, 1, state)
        if times_s is not None:
            times_s.append(time.monotonic() - begin)
        state = suggestion.state
        if suggestion.converged:
            break
        setting = suggestion.settings[0]
        trials.append(Trial(len(trials), setting, TrialState.DONE, attempts=1, measurement=measure(setting)))
    return trials, state


class StrategyContract:
    """What every strategy promises. Give a fixture `strategy`, and `another` where its class takes arguments."""

    bursts = 9

    def another(self, strategy: Strategy) -> Strategy:
        """A new strategy like `strategy`."""
        return type(strategy)()

    @pytest.fixture
    def strategy(self) -> Strategy:
        """The strategy under test, new for each test."""
        raise NotImplementedError("a subclass gives the strategy")

    def test_suggests_new_settings_of_the_space(self, strategy: Strategy) -> None:
        problem = toy_problem()
        trials, _ = drive(strategy, problem, toy_measurement, self.bursts)
        keys = [problem.space.key(trial.setting) for trial in trials]
        assert trials
        assert all(trial.setting in problem.space for trial in trials)
        assert len(set(keys)) == len(keys)

    def test_equal_arguments_give_equal_suggestions(self, strategy: Strategy) -> None:
        first, state = drive(strategy, toy_problem(), toy_measurement, self.bursts)
        again, _ = drive(strategy, toy_problem(), toy_measurement, self.bursts)
        assert first == again
        once = strategy.suggest(toy_problem(), first, 1, state)
        assert once.settings == strategy.suggest(toy_problem(), first, 1, state).settings

    def test_a_stopped_search_goes_on_as_if_it_had_not_stopped(self, strategy: Strategy) -> None:
        problem = toy_problem()
        whole, _ = drive(strategy, problem, toy_measurement, self.bursts)
        for cut in {1, len(whole) // 2, len(whole) - 1} & set(range(len(whole))):
            trials, state = drive(strategy, problem, toy_measurement, cut)
            suggestion = self.another(strategy).suggest(problem, trials, 1, state)
            assert suggestion.settings[0] == whole[cut].setting

    def test_out_of_memory_bounds_the_batch_size(self, strategy: Strategy) -> None:
        trials, _ = drive(strategy, toy_problem(), lambda s: toy_measurement(s, oom_from=8), 16)
        smallest = math.inf
        for trial in trials:
            assert trial.setting[BATCH_KNOB] < smallest
            if trial.status is Status.OOM:
                smallest = trial.setting[BATCH_KNOB]
        if smallest == math.inf:
            pytest.skip("the strategy never asked for more than fits")

    def test_converges_when_nothing_is_left(self, strategy: Strategy) -> None:
        problem = toy_problem(clocks=2, batches=2, cap_w=None)
        trials, _ = drive(strategy, problem, toy_measurement, 10)
        assert len(trials) <= len(problem.space)

    def test_a_space_of_one_setting(self, strategy: Strategy) -> None:
        problem = toy_problem(clocks=1, batches=1)
        trials, _ = drive(strategy, problem, toy_measurement, 5)
        assert [trial.setting for trial in trials] == list(problem.space.settings)

    def test_missing_settings_are_not_suggested(self, strategy: Strategy) -> None:
        full = toy_problem()
        kept = tuple(s for i, s in enumerate(full.space.settings) if i % 3)
        problem = replace(full, space=Space(full.space.knobs, kept))
        trials, _ = drive(strategy, problem, toy_measurement, 14)
        assert trials
        assert all(trial.setting in problem.space for trial in trials)

    def test_pending_trials_are_not_suggested_again(self, strategy: Strategy) -> None:
        problem = toy_problem()
        trials, state = drive(strategy, problem, toy_measurement, 5)
        suggestion = strategy.suggest(problem, trials, 3, state)
        pending = [Trial(len(trials) + i, setting) for i, setting in enumerate(suggestion.settings)]
        more = strategy.suggest(problem, [*trials, *pending], 2, suggestion.state)
        keys = [problem.space.key(setting) for setting in (*suggestion.settings, *more.settings)]
        assert len(set(keys)) == len(keys)

    def test_failed_bursts_do_not_end_the_search(self, strategy: Strategy) -> None:
        def measure(setting: Setting) -> Measurement:
            if setting["gpu_freq_mhz"] == 400:
                return Measurement(Status.CRASHED, "emulated", reason="toy crash")
            return toy_measurement(setting)

        trials, _ = drive(strategy, toy_problem(), measure, 12)
        statuses = [trial.status for trial in trials]
        if Status.CRASHED not in statuses:
            pytest.skip("the strategy never met a setting that crashes")
        assert Status.OK in statuses[statuses.index(Status.CRASHED) :]

    def test_no_more_than_asked_for(self, strategy: Strategy) -> None:
        problem = toy_problem()
        for n in (1, 2, 3):
            settings = strategy.suggest(problem, [], n).settings
            assert 1 <= len(settings) <= n
            assert len({problem.space.key(setting) for setting in settings}) == len(settings)


def sample_trial(index: int, *, state: TrialState = TrialState.ASKED, measurement: Measurement | None = None) -> Trial:
    """A trial with awkward values: floats that JSON must keep to the last bit."""
    return Trial(index, {"gpu_freq_mhz": 624.75, BATCH_KNOB: 16}, state, Role.SEARCH, 1, measurement)


class StoreContract:
    """What every store promises. Give a fixture `store`: empty, new for each test."""

    @pytest.fixture
    def store(self) -> Store:
        """The store under test."""
        raise NotImplementedError("a subclass gives the store")

    def test_empty(self, store: Store) -> None:
        assert store.names() == []
        assert store.load("none") is None

    def test_create_and_load(self, store: Store) -> None:
        created = store.create("a", {"cap": {"watts": 7.0}, "space": [1, 2.5]})
        assert created == store.load("a")
        assert created.specification == {"cap": {"watts": 7.0}, "space": [1, 2.5]}
        assert store.names() == ["a"]

    def test_a_name_is_taken_once(self, store: Store) -> None:
        store.create("a", {})
        with pytest.raises(InputError, match="'a'"):
            store.create("a", {})

    def test_trials_round_trip(self, store: Store) -> None:
        store.create("a", {})
        measurement = Measurement(
            Status.OK,
            "emulated",
            throughput=0.1 + 0.2,
            power_mean_w=1 / 3,
            cost_s=1e-17,
            extra={"vdd_soc_w": Estimate(2.1, 0.01)},
        )
        asked = sample_trial(0)
        store.ask("a", [asked], "state 1")
        loaded = store.load("a")
        assert loaded is not None
        assert (loaded.trials, loaded.strategy_state) == ((asked,), "state 1")
        done = sample_trial(0, state=TrialState.DONE, measurement=measurement)
        store.update("a", done)
        store.ask("a", [sample_trial(1), sample_trial(2)], None)
        loaded = store.load("a")
        assert loaded is not None
        assert loaded.trials == (done, sample_trial(1), sample_trial(2))
        assert loaded.strategy_state is None

    def test_indices_follow(self, store: Store) -> None:
        store.create("a", {})
        with pytest.raises(InputError):
            store.ask("a", [sample_trial(1)], None)
        store.ask("a", [sample_trial(0)], None)
        with pytest.raises(InputError):
            store.ask("a", [sample_trial(0)], "again")
        loaded = store.load("a")
        assert loaded is not None
        assert loaded.trials == (sample_trial(0),)
        assert loaded.strategy_state is None

    def test_what_is_absent(self, store: Store) -> None:
        with pytest.raises(InputError):
            store.ask("none", [sample_trial(0)], None)
        with pytest.raises(InputError):
            store.finish("none", {})
        with pytest.raises(InputError):
            store.archive("none")
        store.create("a", {})
        with pytest.raises(InputError):
            store.update("a", sample_trial(0))

    def test_finish(self, store: Store) -> None:
        store.create("a", {})
        store.finish("a", {"stopped": "budget"})
        store.finish("a", {"stopped": "converged"})
        loaded = store.load("a")
        assert loaded is not None
        assert loaded.outcome == {"stopped": "converged"}

    def test_archive_frees_the_name_and_loses_nothing(self, store: Store) -> None:
        for _ in range(3):
            store.create("a", {"x": 1})
            store.ask("a", [sample_trial(0)], None)
            assert store.archive("a") != "a"
        assert store.load("a") is None
        names = store.names()
        assert len(set(names)) == 3
        for name in names:
            loaded = store.load(name)
            assert loaded is not None
            assert loaded.name == name
            assert loaded.trials == (sample_trial(0),)

    def test_the_oldest_comes_first(self, store: Store) -> None:
        for name in ("b", "c", "a"):
            store.create(name, {})
        assert store.names() == ["b", "c", "a"]

    def test_what_is_returned_belongs_to_the_caller(self, store: Store) -> None:
        specification: dict[str, Any] = {"space": [1]}
        created = store.create("a", specification)
        specification["space"].append(2)
        created.specification["space"].append(3)
        store.ask("a", [sample_trial(0)], "s")
        loaded = store.load("a")
        assert loaded is not None
        assert loaded.specification == {"space": [1]}
        loaded.trials[0].setting["batch_size"] = 99  # type: ignore[index]
        again = store.load("a")
        assert again is not None
        assert again.trials == (sample_trial(0),)

    def test_an_update_changes_its_trial_alone(self, store: Store) -> None:
        store.create("a", {})
        store.ask("a", [sample_trial(0), sample_trial(1)], "s")
        store.finish("a", {"stopped": "budget"})
        done = sample_trial(1, state=TrialState.DONE)
        store.update("a", done)
        loaded = store.load("a")
        assert loaded is not None
        assert loaded.trials == (sample_trial(0), done)
        assert (loaded.strategy_state, loaded.outcome) == ("s", {"stopped": "budget"})
        with pytest.raises(InputError):
            store.update("a", sample_trial(-1))

    def test_a_refused_ask_adds_nothing(self, store: Store) -> None:
        store.create("a", {})
        with pytest.raises(InputError):
            store.ask("a", [sample_trial(0), sample_trial(5)], "s")
        loaded = store.load("a")
        assert loaded is not None
        assert (loaded.trials, loaded.strategy_state) == ((), None)

    def test_an_archived_study_is_found_under_the_name_returned(self, store: Store) -> None:
        created = store.create("a", {"x": 1})
        name = store.archive("a")
        assert created.created_at in name
        loaded = store.load(name)
        assert loaded is not None
        assert loaded.specification == {"x": 1}

    def test_studies_are_apart(self, store: Store) -> None:
        store.create("a", {})
        store.create("b", {})
        store.ask("a", [sample_trial(0)], "a's")
        loaded = store.load("b")
        assert loaded is not None
        assert loaded.trials == ()
        assert loaded.strategy_state is None

    def test_a_lock_can_be_taken_again(self, store: Store) -> None:
        store.create("a", {})
        for _ in range(2):
            with store.lock("a"), store.lock("b"):
                store.ask("a", [sample_trial(len(store.load("a").trials))], None)  # type: ignore[union-attr]

    def test_closing_twice(self, store: Store) -> None:
        store.close()
        store.close()


class SharedStoreContract(StoreContract):
    """A store that several processes can open. Give a fixture `reopen` too: it opens the same one again."""

    @pytest.fixture
    def reopen(self) -> Callable[[], Store]:
        """Opens the storage behind `store` once more."""
        raise NotImplementedError("a subclass says how to open the store again")

    def test_what_was_written_is_there(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create("a", {"cap": 7})
        store.ask("a", [sample_trial(0)], "s")
        other = reopen()
        assert other.load("a") == store.load("a")
        other.close()

    def test_one_holder_at_a_time(self, store: Store, reopen: Callable[[], Store]) -> None:
        other = reopen()
        with store.lock("a"):
            with pytest.raises(StudyInUseError, match="'a'"), other.lock("a"):
                pass
            with other.lock("b"):
                pass
        with other.lock("a"):
            pass
        other.close()
