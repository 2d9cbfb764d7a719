"""Studies from Python: ask and tell, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devices.errors import InputError, UnsupportedError
from devices.measurement import Status
from tests.tuner.toys import ToyDevice
from tuner import Study
from tuner.outcome import Stopped
from tuner.store import MemoryStore
from tuner.testing import toy_measurement
from tuner.trial import TrialState


class TestAskTell:
    def test_a_loop_of_ones_own(self) -> None:
        study = Study(ToyDevice(), "toy", cap_w=9.0, strategy="ax", bursts=20)
        while len(study.trials) < 10:
            for trial in study.ask():
                study.tell(trial, toy_measurement(trial.setting))
        assert study.outcome(Stopped.BUDGET).verdict.recommended is not None

    def test_several_at_once_differ(self) -> None:
        study = Study(ToyDevice(), "toy", strategy="sobol")
        trials = study.ask(4)
        assert [trial.index for trial in trials] == [0, 1, 2, 3]
        assert len({tuple(t.setting.values()) for t in trials}) == 4

    def test_what_was_asked_is_asked_again_until_told(self) -> None:
        store = MemoryStore()
        asked = Study(ToyDevice(), "toy", strategy="sobol", store=store).ask(2)
        assert Study(ToyDevice(), "toy", strategy="sobol", store=store).ask(2) == asked

    def test_telling_twice_or_something_else_is_refused(self) -> None:
        study = Study(ToyDevice(), "toy", strategy="grid")
        (trial,) = study.ask()
        study.tell(trial, toy_measurement(trial.setting))
        with pytest.raises(InputError, match="not waiting"):
            study.tell(trial, toy_measurement(trial.setting))
        with pytest.raises(InputError, match="not waiting"):
            study.tell(replace(trial, index=7), toy_measurement(trial.setting))

    def test_several_at_once_from_the_start(self) -> None:
        trials = Study(ToyDevice(), "toy", strategy="ax").ask(3)
        assert len({tuple(t.setting.values()) for t in trials}) == 3

    def test_a_measurement_that_cannot_be_is_a_crashed_burst(self) -> None:
        study = Study(ToyDevice(), "toy", strategy="grid")
        figures = ("cost_s", "throughput", "throughput_sem", "energy_j", "power_mean_w")
        wrong_ones: list[dict[str, Any]] = [{name: float("nan")} for name in figures]
        wrong_ones += [{"energy_j": -1.0}, {"throughput": 0.0}, {"power_mean_w": 0.0}, {"throughput": None}]
        for wrong in wrong_ones:
            (trial,) = study.ask()
            for _ in range(2):
                told = study.tell(trial, replace(toy_measurement(trial.setting), **wrong))
            assert told.state is TrialState.ABANDONED
            assert told.status is Status.CRASHED
        assert study.outcome(Stopped.BUDGET).verdict.recommended is None

    def test_a_trial_of_another_study_is_refused(self) -> None:
        study = Study(ToyDevice(), "toy", strategy="grid")
        (trial,) = study.ask()
        with pytest.raises(InputError, match="not waiting"):
            study.tell(replace(trial, setting={"gpu_freq_mhz": 600, "batch_size": 16}), toy_measurement(trial.setting))
        with pytest.raises(InputError, match="measured"):
            study.tell(trial, replace(toy_measurement(trial.setting), source="measured"))

    def test_a_closed_study_asks_nothing(self) -> None:
        study = Study(ToyDevice(), "toy", strategy="grid")
        study.close()
        study.close()
        with pytest.raises(InputError, match="closed"):
            study.ask()
        with pytest.raises(InputError, match="closed"):
            study.run()

    def test_converged_asks_nothing(self) -> None:
        study = Study(ToyDevice(clocks=1, batches=1), "toy", strategy="grid")
        (trial,) = study.ask()
        study.tell(trial, toy_measurement(trial.setting))
        assert study.ask() == []


class TestInput:
    def test_a_cap_without_a_meter(self) -> None:
        with pytest.raises(UnsupportedError, match="no power meter"):
            Study(ToyDevice(meter=False), "toy", cap_w=7.0)

    def test_energy_without_a_meter(self) -> None:
        with pytest.raises(UnsupportedError, match="no power meter"):
            Study(ToyDevice(meter=False), "toy", goal="energy")

    def test_throughput_without_a_meter(self) -> None:
        outcome = Study(ToyDevice(meter=False), "toy", strategy="grid").run()
        assert outcome.verdict.recommended is not None
        assert outcome.to_json()["recommended"]["power_w"] is None

    def test_a_statistic_the_device_does_not_give(self) -> None:
        with pytest.raises(UnsupportedError, match="peak"):
            Study(ToyDevice(), "toy", cap_w=7.0, cap_on="peak")

    def test_a_statistic_without_a_cap(self) -> None:
        with pytest.raises(InputError, match="without a cap"):
            Study(ToyDevice(), "toy", cap_on="mean")

    @pytest.mark.parametrize("cap_w", [0.0, -1.0, float("nan"), float("inf"), "7W"])
    def test_no_cap_at_all(self, cap_w: Any) -> None:
        with pytest.raises(InputError):
            Study(ToyDevice(), "toy", cap_w=cap_w)

    def test_unknown_names(self) -> None:
        with pytest.raises(InputError, match="unknown goal"):
            Study(ToyDevice(), "toy", goal="speed")
        with pytest.raises(InputError, match="unknown strategy"):
            Study(ToyDevice(), "toy", strategy="magic")
        with pytest.raises(InputError, match="unknown device"):
            Study("jetson-oring", cap_w=7.0)
        with pytest.raises(InputError, match="one burst"):
            Study(ToyDevice(), "toy", bursts=0)
        with pytest.raises(InputError, match="seed"):
            Study(ToyDevice(), "toy", seed=-1)
        with pytest.raises(InputError, match="no statistic"):
            Study("jetson-orin", cap_w=7, cap_on="median")  # type: ignore[arg-type]

    def test_a_named_device_is_closed_with_the_study_and_a_given_one_is_not(self) -> None:
        device = ToyDevice()
        with Study(device, "toy", strategy="grid", bursts=1) as study:
            study.run()
        assert device.closed == 0


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", None, True])
def test_a_number_of_trials_that_is_none_is_refused(n: Any) -> None:
    with Study(ToyDevice(), "toy", strategy="sobol") as study:
        with pytest.raises(InputError, match="one trial or more"):
            study.ask(n)
        assert study.trials == ()
