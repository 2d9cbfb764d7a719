"""The analytic model on published fits and recorded tables: `reference/papers.md`, section 4, Perseus and Zeus."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

from devices.device import BATCH_KNOB
from devices.errors import InputError
from devices.importers import import_perseus, import_zeus
from tests.tuner.models.published import PUBLISHED, PublishedFit
from tuner.goal import GOALS
from tuner.models import analytic
from tuner.models.analytic import AnalyticModel, profile_points

by_row = pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row.name)


def fit(row: PublishedFit, seed: int | None = None) -> AnalyticModel:
    return AnalyticModel.fit([row.knob], row.points(seed), fixed={"w": 1.0})


class TestPublishedFits:
    @by_row
    def test_the_curves_give_back_their_coefficients(self, row: PublishedFit) -> None:
        model = fit(row)
        for name, true in row.coefficients.items():
            assert model[name].value == pytest.approx(true, rel=1e-3)
            assert model[name].low < true < model[name].high
        assert [c.name for c in model.coefficients] == ["t0", "c1", "p0", "p1", "p3", "w"]
        assert [c.unit for c in model.coefficients] == ["s", "s GHz", "W", "W/GHz", "W/GHz^3", ""]
        assert (model["w"].value, model["w"].low, model["w"].high, model["w"].fixed) == (1.0, 1.0, 1.0, True)
        assert model.time_error < 1e-5
        assert model.power_error is not None
        assert model.power_error < 1e-5

    @by_row
    def test_points_as_noisy_as_the_published_give_its_errors_and_predictions(self, row: PublishedFit) -> None:
        exact = fit(row)
        for seed in range(3):
            model = fit(row, seed)
            assert model.time_error < 1.3 * row.time_error
            assert model.power_error is not None
            assert model.power_error < 1.3 * row.power_error
            for clock in row.clocks_mhz:
                true, found = exact.predict({"gpu_freq_mhz": clock}), model.predict({"gpu_freq_mhz": clock})
                assert found.step_time_s.value == pytest.approx(true.step_time_s.value, rel=2.5 * row.time_error)
                assert found.power_w is not None
                assert true.power_w is not None
                assert found.power_w.value == pytest.approx(true.power_w.value, rel=2.5 * row.power_error)
            assert model["c1"].value == pytest.approx(row.c1, rel=2.5 * row.time_error)
            assert model["p0"].value == pytest.approx(row.p0, rel=5 * row.power_error)

    def test_intervals_hold_the_true_coefficients_nine_times_in_ten(self) -> None:
        held = [
            model[name].low <= true <= model[name].high
            for row in PUBLISHED
            for seed in range(10)
            for model in [fit(row, seed)]
            for name, true in row.coefficients.items()
        ]
        assert len(held) == 300
        assert 0.8 <= sum(held) / len(held) <= 0.97

    def test_the_scatter_is_that_of_the_noise(self) -> None:
        models = [(row, fit(row, seed)) for row in PUBLISHED for seed in range(10)]
        time = [m.scatter[0] / row.time_error for row, m in models]
        power = [(m.scatter[1] or 0.0) / row.power_error for row, m in models]
        for relative in (time, power):  # not below it, as the points' own deviations from a fit are
            assert np.sqrt(np.mean(np.square(relative))) == pytest.approx(np.sqrt(np.pi / 2), rel=0.06)

    def test_seven_watts_on_the_tx2_are_about_690_mhz(self) -> None:
        row = PUBLISHED[-1]
        model = fit(row)
        optimum = model.optimum([{"gpu_freq_mhz": clock} for clock in range(115, 1301)], 7.0)
        assert optimum is not None
        assert optimum.prediction.setting["gpu_freq_mhz"] == pytest.approx(690, abs=10)
        on_board = model.optimum([{"gpu_freq_mhz": clock} for clock in row.clocks_mhz], 7.0)
        assert on_board is not None
        assert on_board.prediction.setting == {"gpu_freq_mhz": 624.75}

    @by_row
    def test_the_board_draws_what_was_published_and_is_not_frugal_at_its_highest_clock(self, row: PublishedFit) -> None:
        # "Lowest to highest GPU clock: AGX 6.6-6.8 -> 22-24.5 W, TX2 4.1-4.3 -> 11-11.4 W"
        low_w, high_w = ((6.6, 6.8), (22, 24.5)) if row.name.startswith("AGX") else ((4.1, 4.3), (11, 11.4))
        settings = [{"gpu_freq_mhz": clock} for clock in row.clocks_mhz]
        model = fit(row)
        for setting, (least, most) in ((settings[0], low_w), (settings[-1], high_w)):
            power = model.predict(setting).power_w
            assert power is not None
            assert 0.93 * least < power.value < 1.07 * most
        frugal = model.optimum(settings, goal=GOALS["energy"])
        assert frugal is not None
        assert row.clocks_mhz[0] < frugal.prediction.setting["gpu_freq_mhz"] < row.clocks_mhz[-1]

    def test_the_published_coefficients_alone_are_a_model(self) -> None:
        row = PUBLISHED[-1]
        model = AnalyticModel.of_coefficients([row.knob], {**row.coefficients, "w": 1.0})
        for point in row.points():
            found = model.predict(point.setting)
            assert found.step_time_s.value == pytest.approx(point.step_time_s)
            assert found.power_w is not None
            assert found.power_w.low == found.power_w.value == found.power_w.high == pytest.approx(point.power_w)
        time_only = AnalyticModel.of_coefficients([row.knob], {"t0": 0.1, "c1": 0.2})
        assert time_only.predict({"gpu_freq_mhz": 1000}).step_time_s.value == pytest.approx(0.3)
        assert not time_only.powered
        with pytest.raises(InputError, match="needs a value for p3, w"):
            AnalyticModel.of_coefficients([row.knob], {"t0": 0.1, "c1": 0.2, "p0": 1.0, "p1": 1.0})


@pytest.mark.parametrize(
    ("file", "time_error", "power_error"),
    [
        ("bloom+a100_sxm_bf16", 0.008, 0.042),
        ("bloom+a40_bf16", 0.013, 0.035),
        ("gpt3-175b+a100_sxm_bf16", 0.007, 0.035),
        ("gpt3-175b+a40_bf16", 0.020, 0.037),
    ],
)
def test_recorded_clock_sweeps(data_folder: Path, file: str, time_error: float, power_error: float) -> None:
    profile = import_perseus(data_folder / "perseus-sosp24" / f"{file}.stage_profile.csv")
    model = AnalyticModel.of_profile(profile)
    assert model.time_error < time_error
    assert model.power_error is not None
    assert model.power_error < power_error
    assert all(c.value >= 0 for c in model.coefficients)


@pytest.mark.parametrize(
    ("gpu", "workload", "time_error", "power_error"),
    [
        ("v100", "cifar100/shufflenetv2/adadelta", 0.025, 0.07),
        ("v100", "imagenet/resnet50/adadelta", 0.013, 0.025),
        ("v100", "librispeech/deepspeech2/adamw", 0.032, 0.06),
        ("v100", "sentiment140/bert_base_uncased/adamw", 0.021, 0.027),
        ("v100", "squad/bert_base_uncased/adamw", 0.017, 0.018),
        ("a40", "cifar100/shufflenetv2/adadelta", 0.062, 0.045),
    ],
)
def test_recorded_power_limits(
    data_folder: Path, gpu: str, workload: str, time_error: float, power_error: float
) -> None:
    profile = import_zeus(data_folder / "zeus-nsdi23" / f"summary_power_{gpu}.csv", workload)
    model = AnalyticModel.of_profile(profile, plain=False)
    assert model.time_error < time_error
    assert model.power_error is not None
    assert model.power_error < power_error


def test_the_examples_of_the_docstring() -> None:
    found = doctest.testmod(analytic)
    assert found.attempted >= 8
    assert found.failed == 0


def test_the_points_of_a_profile(data_folder: Path) -> None:
    path = data_folder / "zeus-nsdi23" / "summary_power_v100.csv"
    profile = import_zeus(path, "imagenet/resnet50/adadelta")
    points = profile_points(profile)
    assert len(points) == len(profile.settings)
    cell, point = profile.cells()[0], points[0]
    assert point.step_time_s == pytest.approx(3600 / cell.throughput * cell.setting[BATCH_KNOB])
    assert point.power_w == cell.power_w
