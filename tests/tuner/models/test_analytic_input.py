"""What cannot be fitted or asked is one clear sentence, whatever it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from devices.device import Knob
from devices.errors import InputError
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from tuner.models.analytic import AnalyticModel, Point
from tuner.models.analytic_device import AnalyticDevice

KNOBS = (Knob("gpu_freq_mhz", (300, 600, 900)), Knob("batch_size", (1, 4, 16)))
SETTING = {"gpu_freq_mhz": 300, "batch_size": 4}
NO_NUMBERS: list[Any] = ["x", True, math.nan, math.inf, -1, [1], 1 + 2j]


@pytest.fixture(scope="module")
def model() -> AnalyticModel:
    points = [
        Point({"gpu_freq_mhz": f, "batch_size": b}, 0.01 + b / f, 3 + f / 300) for f in (300, 900) for b in (1, 16)
    ]
    return AnalyticModel.fit(KNOBS, points)


def profile(*, status: Status = Status.OK) -> Profile:
    rows = (
        ProfileRow({"gpu_freq_mhz": f, "batch_size": b}, status, throughput=1.0 + f * b, power_mean_w=3.0)
        for f in (300, 900)
        for b in (1, 4)
    )
    return Profile(ProfileMetadata(), ("gpu_freq_mhz", "batch_size"), tuple(rows))


@pytest.mark.parametrize("value", [None, *NO_NUMBERS], ids=repr)
def test_no_number_is_named_with_its_place(model: AnalyticModel, value: Any) -> None:
    calls: dict[str, Callable[[], object]] = {
        "the step time of the point at": lambda: AnalyticModel.fit(KNOBS, [Point(SETTING, value)]),
        "the error of the power of": lambda: AnalyticModel.fit(KNOBS, [Point(SETTING, 1.0, 5.0, 0.0, value)]),
        "batch_size of the point at": lambda: AnalyticModel.fit(KNOBS, [Point({**SETTING, "batch_size": value}, 1.0)]),
        "the weight of the prior": lambda: AnalyticModel.fit(KNOBS, [Point(SETTING, 1.0)], prior_weight=value),
        "gpu_freq_mhz of the setting": lambda: model.predict({**SETTING, "gpu_freq_mhz": value}),
        "the noise of power": lambda: AnalyticDevice(model, noise_power=value),
    }
    for what, call in calls.items():
        with pytest.raises(InputError, match=rf"^{what}.* is a number .*, not "):
            call()


@pytest.mark.parametrize("value", ["x", math.nan, math.inf, 0, -1, [1]], ids=repr)
def test_a_cap_or_power_that_is_none(model: AnalyticModel, value: Any) -> None:
    with pytest.raises(InputError, match=r"^a cap in watts is a number above 0, not "):
        model.optimum([SETTING], value)
    with pytest.raises(InputError, match=r"^the power of the point at .* is a number above 0, not "):
        AnalyticModel.fit(KNOBS, [Point(SETTING, 1.0, value)])


@pytest.mark.parametrize("value", [None, "x", math.nan, [1]], ids=repr)
def test_a_coefficient_that_is_none(value: Any) -> None:
    with pytest.raises(InputError, match=r"^the coefficient t0 is a number that is finite, not "):
        AnalyticModel.fit(KNOBS, [Point(SETTING, 1.0)], fixed={"t0": value})


def test_no_setting_no_goal_no_knob(model: AnalyticModel) -> None:
    with pytest.raises(InputError, match=r"^the setting .* has no gpu_freq_mhz$"):
        model.predict({"batch_size": 1})
    nothing: Any = None
    with pytest.raises(InputError, match=r"^a setting is a value for each of gpu_freq_mhz, batch_size, not None$"):
        model.predict(nothing)
    name: Any = "energy"
    with pytest.raises(InputError, match=r"^'energy' is no goal$"):
        model.optimum([SETTING], goal=name)
    with pytest.raises(InputError, match=r"^an analytic model needs one knob or more$"):
        AnalyticModel.fit([], [Point({}, 1.0)])


def test_a_statistic_that_was_not_recorded_is_not_taken_for_no_power() -> None:
    with pytest.raises(InputError, match=r"^the profile records no p95 of power, only mean$"):
        AnalyticModel.of_profile(profile(), statistic="p95")
    unknown: Any = "median"
    with pytest.raises(InputError, match=r"^'median' is no statistic of power$"):
        AnalyticModel.of_profile(profile(), statistic=unknown)


def test_a_profile_of_failures() -> None:
    with pytest.raises(InputError, match=r"^an analytic model needs one point or more$"):
        AnalyticModel.of_profile(profile(status=Status.OOM))
