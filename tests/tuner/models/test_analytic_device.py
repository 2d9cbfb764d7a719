from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from devices.device import BATCH_KNOB, BurstPlan, Device, Knob, WorkloadSpec
from devices.errors import InputError
from devices.testing import DeviceContract
from tests.tuner.models.published import PUBLISHED
from tuner import Study
from tuner.models.analytic import AnalyticModel
from tuner.models.analytic_device import AnalyticDevice, predicted_profile
from tuner.outcome import Stopped

KNOBS = (Knob("gpu_freq_mhz", (300, 500, 700, 900)), Knob(BATCH_KNOB, (4, 8, 16, 32)))
MODEL = AnalyticModel.of_coefficients(
    KNOBS,
    {"t0": 0.02, "t1": 0.004, "c0": 0.001, "c1": 0.003, "p0": 4.0, "p1": 5.0, "p3": 3.0, "w": 0.3},
)
WORKLOAD = WorkloadSpec("analytic")


class TestContract(DeviceContract):
    @pytest.fixture(params=[0.0, 0.02], ids=["exact", "noisy"])
    def device(self, request: pytest.FixtureRequest) -> Iterator[Device]:
        with AnalyticDevice(MODEL, noise_throughput=request.param, noise_power=request.param / 2) as device:
            yield device


class TestContractWithoutPower(DeviceContract):
    @pytest.fixture
    def device(self) -> Iterator[Device]:
        row = PUBLISHED[0]
        with AnalyticDevice(AnalyticModel.of_coefficients([row.knob], {"t0": row.t0, "c1": row.c1})) as device:
            yield device


def test_it_says_what_it_is() -> None:
    info = AnalyticDevice(MODEL).describe()
    assert (info.name, info.source, info.model) == ("analytic", "emulated", None)
    assert info.statistics == ("mean",)
    assert info.throughput_unit == "samples/s"
    assert info.notes == (
        "an analytic model answers",
        "no default is known: the highest of every knob is assumed",
    )
    row = PUBLISHED[0]
    fitted = AnalyticModel.fit([Knob("gpu_freq_mhz", row.clocks_mhz, 905.25)], row.points(0))
    info = AnalyticDevice(fitted).describe()
    assert info.default_setting == {"gpu_freq_mhz": 905.25}
    assert info.throughput_unit == "steps/s"
    (note,) = info.notes
    assert "of step time" in note
    assert "of power" in note


def test_without_noise_it_is_the_prediction() -> None:
    device = AnalyticDevice(MODEL)
    for setting in device.describe().enumerate_settings():
        found, predicted = device.measure(setting, WORKLOAD, BurstPlan()), MODEL.predict(setting)
        assert predicted.power_w is not None
        assert predicted.energy_per_sample_j is not None
        assert (found.throughput, found.throughput_sem) == (predicted.throughput.value, 0)
        assert (found.power_mean_w, found.power_mean_sem_w) == (predicted.power_w.value, 0)
        assert found.step_time_s == predicted.step_time_s.value
        assert found.energy_per_sample_j == pytest.approx(predicted.energy_per_sample_j.value)


def test_noise_is_of_the_size_asked_for_and_a_function_of_seed_setting_and_replicate() -> None:
    setting = {"gpu_freq_mhz": 500, BATCH_KNOB: 8}

    def speeds(seed: int) -> list[float]:
        device = AnalyticDevice(MODEL, seed=seed, noise_throughput=0.02)
        found = [device.measure(setting, WORKLOAD, BurstPlan(replicate=i)).throughput for i in range(200)]
        return [speed / MODEL.predict(setting).throughput.value for speed in found if speed is not None]

    assert speeds(0) == speeds(0) != speeds(1)
    assert statistics.fmean(speeds(0)) == pytest.approx(1, abs=0.005)
    assert statistics.stdev(speeds(0)) == pytest.approx(0.02, rel=0.15)


def test_values_restrict_the_knobs() -> None:
    device = AnalyticDevice(MODEL, values={BATCH_KNOB: [8]})
    assert [knob.values for knob in device.describe().knobs] == [(300, 500, 700, 900), (8,)]
    with pytest.raises(InputError):
        device.measure({"gpu_freq_mhz": 500, BATCH_KNOB: 16}, WORKLOAD, BurstPlan())
    with pytest.raises(InputError):
        AnalyticDevice(MODEL, values={BATCH_KNOB: [9]})
    with pytest.raises(InputError):
        AnalyticDevice(MODEL, noise_power=2.0)


def test_a_table_of_chosen_settings() -> None:
    profile = predicted_profile(MODEL, [{"gpu_freq_mhz": 450, BATCH_KNOB: 6}])
    assert profile.metadata.provenance == "emulated"
    (row,) = profile.rows
    assert row.throughput == MODEL.predict(row.setting).throughput.value


@pytest.mark.parametrize("strategy", ["grid", "analytic"])
@pytest.mark.parametrize("cap_w", [6.5, 8.0])
def test_a_study_finds_the_optimum_of_the_model(strategy: str, cap_w: float) -> None:
    device = AnalyticDevice(MODEL)
    outcome = Study(device, "analytic", cap_w=cap_w, strategy=strategy).run()
    optimum = MODEL.optimum(list(device.describe().enumerate_settings()), cap_w)
    assert optimum is not None
    assert outcome.stopped is Stopped.CONVERGED
    assert outcome.verdict.recommended is not None
    assert outcome.verdict.recommended.setting == optimum.prediction.setting
