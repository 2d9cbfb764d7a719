from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from devices.device import BurstPlan, Setting
from devices.errors import DeviceError, SpecificationChangedError
from devices.measurement import Measurement, Status
from tests.tuner.toys import ToyDevice, failed
from tuner import Study
from tuner.outcome import Stopped
from tuner.problem import Problem
from tuner.store import MemoryStore
from tuner.strategies import Strategy, Suggestion
from tuner.strategies.sobol import SobolStrategy
from tuner.study import Progress
from tuner.testing import toy_measurement
from tuner.trial import Role, TrialState


def best_under(cap_w: float, device: ToyDevice) -> float:
    found = [toy_measurement(setting) for setting in device.describe().enumerate_settings()]
    return max(m.throughput or 0 for m in found if (m.power_mean_w or 0) <= cap_w)


class TestRun:
    def test_finds_the_best_setting_under_the_cap(self) -> None:
        device = ToyDevice(clocks=5, batches=6)
        outcome = Study(device, "toy", cap_w=9.0).run()
        assert outcome.verdict.recommended is not None
        assert outcome.verdict.recommended.goal.value >= 0.98 * best_under(9.0, device)
        assert outcome.verdict.feasible_probability == 1.0
        assert outcome.stopped in (Stopped.CONVERGED, Stopped.BUDGET)

    def test_goal_energy(self) -> None:
        device = ToyDevice()
        outcome = Study(device, "toy", goal="energy", strategy="grid").run()
        assert outcome.verdict.recommended is not None
        lowest = min(toy_measurement(s).energy_per_sample_j or 9 for s in device.describe().enumerate_settings())
        assert outcome.verdict.recommended.goal.value == lowest

    def test_exact_measurements_need_no_confirmation(self) -> None:
        outcome = Study(ToyDevice(), "toy", cap_w=9.0, strategy="grid").run()
        assert {trial.role for trial in outcome.trials} == {Role.SEARCH}

    def test_noisy_measurements_are_confirmed(self) -> None:
        outcome = Study(ToyDevice(noise=0.01), "toy", cap_w=9.0, bursts=15).run()
        recommended = outcome.verdict.recommended
        assert recommended is not None
        assert len(recommended.measurements) >= 2
        assert recommended.power is not None
        assert recommended.power.value <= 9.0
        assert (outcome.verdict.feasible_probability or 0) >= 0.95
        assert len(outcome.trials) <= 15

    def test_what_is_recommended_was_measured(self) -> None:
        outcome = Study(ToyDevice(noise=0.02), "toy", cap_w=8.0, bursts=12).run()
        recommended = outcome.verdict.recommended
        assert recommended is not None
        own = [
            t.measurement.throughput
            for t in outcome.trials
            if t.setting == recommended.setting and t.valid and t.measurement
        ]
        assert recommended.goal.value == pytest.approx(sum(v or 0 for v in own) / len(own))
        assert outcome.to_json()["recommended"]["throughput"] == pytest.approx(recommended.goal.value)

    def test_one_noisy_burst_cannot_be_confirmed(self) -> None:
        outcome = Study(ToyDevice(noise=0.01), "toy", bursts=1).run()
        assert outcome.verdict.recommended is None
        assert outcome.verdict.best_measured is not None
        assert outcome.stopped is Stopped.BUDGET

    def test_the_budget_counts_every_burst(self) -> None:
        device = ToyDevice(script=lambda s, p: failed(Status.THROTTLED) if p.replicate == 0 else None)
        outcome = Study(device, "toy", strategy="sobol", bursts=8).run()
        assert len(device.bursts) == 8
        assert len(outcome.trials) == 4

    def test_a_cap_below_everything_ends_early(self) -> None:
        device = ToyDevice(clocks=5, batches=6)
        outcome = Study(device, "toy", cap_w=1.0).run()
        assert outcome.stopped is Stopped.INFEASIBLE
        assert outcome.verdict.recommended is None
        assert len(device.bursts) <= 6

    def test_bursts_ended_by_the_guard_show_that_nothing_is_feasible(self) -> None:
        def guard(setting: Setting, plan: BurstPlan) -> Measurement:
            return replace(toy_measurement(setting), status=Status.OVER_CAP, reason="above the cap")

        device = ToyDevice(clocks=5, batches=6, script=guard)
        outcome = Study(device, "toy", cap_w=1.0).run()
        assert outcome.stopped is Stopped.INFEASIBLE
        assert len(device.bursts) <= 6
        assert {entry["feasible"] for entry in outcome.to_json()["trials"]} == {False}

    def test_a_whole_space_above_the_cap_is_infeasible(self) -> None:
        outcome = Study(ToyDevice(clocks=1, batches=2), "toy", cap_w=1.0, strategy="grid").run()
        assert outcome.stopped is Stopped.INFEASIBLE

    def test_out_of_memory_bounds_the_batch(self) -> None:
        device = ToyDevice(batches=6, oom_from=8)
        outcome = Study(device, "toy", strategy="sobol").run()
        seen = [setting["batch_size"] for setting, _ in device.bursts]
        first = next(i for i, batch in enumerate(seen) if batch >= 8)
        assert max(seen[first + 1 :]) < seen[first]
        assert outcome.verdict.recommended is not None

    def test_progress_is_told_after_every_burst(self) -> None:
        told: list[Progress] = []
        outcome = Study(ToyDevice(), "toy", cap_w=9.0, strategy="grid", bursts=6).run(told.append)
        assert [p.bursts for p in told] == [1, 2, 3, 4, 5, 6]
        assert told[-1].trial == outcome.trials[-1]
        assert told[-1].best is not None

    def test_what_a_burst_is_doing_is_told_with_its_setting(self) -> None:
        told: list[Mapping[str, Any]] = []
        with Study("jetson-orin", cap_w=7.0, bursts=2) as study:
            outcome = study.run(on_event=told.append)
        assert {event["phase"] for event in told} == {"apply", "warm-up", "window"}
        assert [e["setting"] for e in told if e["phase"] == "apply"] == [dict(t.setting) for t in outcome.trials]

    def test_replicates_are_numbered(self) -> None:
        device = ToyDevice(noise=0.01)
        Study(device, "toy", cap_w=9.0, bursts=14).run()
        for setting in {tuple(sorted(s.items())) for s, _ in device.bursts}:
            numbers = [n for s, n in device.bursts if tuple(sorted(s.items())) == setting]
            assert numbers == list(range(len(numbers)))

    def test_running_a_finished_study_measures_nothing(self) -> None:
        device, store = ToyDevice(noise=0.01), MemoryStore()
        first = Study(device, "toy", cap_w=9.0, bursts=12, store=store).run()
        bursts = len(device.bursts)
        again = Study(device, "toy", cap_w=9.0, bursts=12, store=store).run()
        assert again.to_json() == first.to_json()
        assert len(device.bursts) == bursts

    def test_a_larger_budget_goes_on(self) -> None:
        device, store = ToyDevice(), MemoryStore()
        Study(device, "toy", strategy="sobol", bursts=4, store=store).run()
        outcome = Study(device, "toy", strategy="sobol", bursts=9, store=store).run()
        assert len(outcome.trials) == len(device.bursts) == 9


class TestBaseline:
    def test_the_default_is_measured_for_comparison(self) -> None:
        default = {"gpu_freq_mhz": 600, "batch_size": 2}
        outcome = Study(ToyDevice(default=default), "toy", strategy="sobol", bursts=20).run()
        assert outcome.baseline is not None
        assert outcome.baseline.setting == default

    def test_above_the_cap_its_batch_runs_at_the_fastest_clock_that_holds_it(self) -> None:
        default = {"gpu_freq_mhz": 600, "batch_size": 4}
        outcome = Study(ToyDevice(default=default), "toy", cap_w=8.0, strategy="grid", bursts=25).run()
        assert outcome.baseline is not None
        assert outcome.baseline.setting == {"gpu_freq_mhz": 500, "batch_size": 4}
        assert outcome.baseline.within(outcome.problem.cap)

    def test_a_clock_that_may_hold_the_cap_is_tried_before_a_slower_one(self) -> None:
        """An unlucky reading at batch 24 makes 408 MHz look too fast; at the default's batch 32 it holds the cap."""
        with Study("jetson-orin", cap_w=7.0, values={"batch_size": (8, 16, 24, 32)}) as study:
            outcome = study.run()
        assert outcome.baseline is not None
        assert outcome.baseline.setting == {"gpu_freq_mhz": 408, "batch_size": 32}
        assert outcome.verdict.recommended is not None
        assert outcome.verdict.recommended.setting == outcome.baseline.setting

    def test_a_missing_standard_error_is_not_exactness(self) -> None:
        def silent(setting: Setting, plan: BurstPlan) -> Measurement:
            return replace(toy_measurement(setting), throughput_sem=None, power_mean_sem_w=None)

        outcome = Study(ToyDevice(script=silent, clocks=2, batches=2), "toy", cap_w=9.0, strategy="grid").run()
        assert outcome.verdict.recommended is not None
        assert len(outcome.verdict.recommended.measurements) == 2

    def test_a_strategy_of_ones_own(self) -> None:
        class First(Strategy):
            name = "first"

            def suggest(self, problem: Problem, trials: Any, n: int = 1, state: str | None = None) -> Suggestion:
                return Suggestion(tuple(problem.space.settings[len(trials) : len(trials) + 1]))

        outcome = Study(ToyDevice(clocks=2, batches=2), "toy", strategy=First()).run()
        assert len(outcome.trials) == 4

    def test_only_the_clock_is_lowered(self) -> None:
        default = {"gpu_freq_mhz": 600, "batch_size": 16}
        outcome = Study(ToyDevice(default=default), "toy", cap_w=7.0, strategy="grid", bursts=25).run()
        assert outcome.baseline is not None
        assert outcome.baseline.setting["batch_size"] == 16
        document = outcome.to_json()
        assert document["baseline"]["slowed"] is True
        assert document["default_setting"] == default

    def test_a_default_no_clock_can_slow_enough_is_no_baseline(self) -> None:
        default = {"gpu_freq_mhz": 600, "batch_size": 16}
        outcome = Study(ToyDevice(default=default), "toy", cap_w=5.25, strategy="grid", bursts=25).run()
        assert outcome.verdict.recommended is not None
        assert outcome.baseline is None

    def test_its_burst_does_not_break_the_budget(self) -> None:
        default = {"gpu_freq_mhz": 300, "batch_size": 1}
        device = ToyDevice(default=default, noise=0.01, clocks=5, batches=6)
        Study(device, "toy", cap_w=9.0, strategy="sobol", bursts=8).run()
        assert len(device.bursts) <= 8


class TestFailures:
    def test_a_transient_failure_is_tried_again(self) -> None:
        def flaky(setting: Setting, plan: BurstPlan) -> Measurement | None:
            return failed(Status.THROTTLED) if plan.replicate == 0 else None

        device = ToyDevice(script=flaky)
        outcome = Study(device, "toy", strategy="grid", bursts=8).run()
        assert [t.attempts for t in outcome.trials] == [2, 2, 2, 2]
        assert all(t.valid for t in outcome.trials)
        first = outcome.trials[0].measurement
        assert first is not None
        assert first.cost_s == 11.0  # both attempts cost time

    def test_a_lasting_failure_abandons_the_trial_and_goes_on(self) -> None:
        def broken(setting: Setting, plan: BurstPlan) -> Measurement | None:
            return failed(Status.CLOCK_NOT_APPLIED) if setting["gpu_freq_mhz"] == 400 else None

        device = ToyDevice(clocks=3, batches=2, script=broken)
        outcome = Study(device, "toy", strategy="grid").run()
        states = {t.setting["gpu_freq_mhz"]: t.state for t in outcome.trials}
        assert states == {300: TrialState.DONE, 400: TrialState.ABANDONED, 500: TrialState.DONE}

    @pytest.mark.parametrize("status", [Status.OOM, Status.TIMEOUT])
    def test_what_would_fail_again_is_not_tried_again(self, status: Status) -> None:
        device = ToyDevice(clocks=1, batches=3, script=lambda s, p: failed(status) if s["batch_size"] == 4 else None)
        outcome = Study(device, "toy", strategy="grid").run()
        assert [t.attempts for t in outcome.trials] == [1, 1, 1]

    def test_failure_after_failure_stops_the_study_and_keeps_it(self) -> None:
        device, store = ToyDevice(script=lambda s, p: failed(Status.CRASHED, "no space left")), MemoryStore()
        with pytest.raises(DeviceError, match=r"last 5 bursts failed: crashed: no space left"):
            Study(device, "toy", strategy="grid", store=store).run()
        healthy = ToyDevice()
        outcome = Study(healthy, "toy", strategy="grid", store=store).run()
        assert outcome.verdict.recommended is not None


class TestResume:
    @pytest.mark.parametrize("strategy", ["ax", "sobol", "grid"])
    def test_stopping_after_any_burst_changes_nothing(self, strategy: str) -> None:
        whole = Study(ToyDevice(noise=0.01), "toy", cap_w=9.0, strategy=strategy, bursts=13, store=MemoryStore()).run()
        last = len(whole.trials)
        for cut in (1, 4, last // 2, last - 1):
            store = MemoryStore()
            study = Study(ToyDevice(noise=0.01), "toy", cap_w=9.0, strategy=strategy, bursts=13, store=store)

            def stop(progress: Progress, study: Study = study, cut: int = cut) -> None:
                if progress.bursts == cut:
                    study.request_stop()

            stopped = study.run(stop)
            assert stopped.stopped is Stopped.INTERRUPTED
            assert len(stopped.trials) == cut
            resumed = Study(ToyDevice(noise=0.01), "toy", cap_w=9.0, strategy=strategy, bursts=13, store=store).run()
            assert resumed.to_json() == whole.to_json()

    def test_an_aborted_burst_is_measured_first(self) -> None:
        store = MemoryStore()
        holder: list[Study] = []

        def abort(setting: Setting, plan: BurstPlan) -> Measurement | None:
            if len(device.bursts) == 3:
                holder[0].abort()
                return failed(Status.ABORTED)
            return None

        device = ToyDevice(script=abort)
        holder.append(Study(device, "toy", strategy="grid", store=store))
        outcome = holder[0].run()
        assert outcome.stopped is Stopped.INTERRUPTED
        assert device.aborted == 1
        assert outcome.trials[-1].pending
        again = ToyDevice()
        Study(again, "toy", strategy="grid", store=store).run()
        assert again.bursts[0] == (dict(outcome.trials[-1].setting), 0)

    def test_stopping_while_the_strategy_thinks_makes_no_burst(self) -> None:
        class Thinking(SobolStrategy):
            def suggest(self, *arguments: Any, **options: Any) -> Suggestion:
                if len(device.bursts) == 2:
                    study.abort()
                return super().suggest(*arguments, **options)

        device = ToyDevice()
        study = Study(device, "toy", strategy="sobol", bursts=6)
        study._strategy = Thinking()
        assert study.run().stopped is Stopped.INTERRUPTED
        assert len(device.bursts) == 2
        study._strategy = SobolStrategy()
        assert study.run().stopped is Stopped.BUDGET
        assert len(device.bursts) == 6

    def test_a_changed_specification_is_refused_with_the_difference(self) -> None:
        store = MemoryStore()
        Study(ToyDevice(), "toy", cap_w=9.0, strategy="grid", bursts=2, store=store, name="mine").run()
        with pytest.raises(SpecificationChangedError, match=r"cap\.watts: 9 is now 8") as error:
            Study(ToyDevice(), "toy", cap_w=8.0, strategy="grid", bursts=2, store=store, name="mine")
        assert "--fresh" in (error.value.hint or "")
        loaded = store.load("mine")
        assert loaded is not None
        assert len(loaded.trials) == 2

    def test_fresh_keeps_the_old_study(self) -> None:
        store = MemoryStore()
        Study(ToyDevice(), "toy", strategy="grid", bursts=2, store=store, name="mine").run()
        Study(ToyDevice(), "toy", strategy="grid", bursts=3, store=store, name="mine", fresh=True).run()
        lengths = {name: len(found.trials) for name in store.names() if (found := store.load(name))}
        assert sorted(lengths.values()) == [2, 3]
        assert lengths["mine"] == 3
