"""Whatever the analytic model is given, it answers with finite numbers or refuses in one sentence."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from devices.device import Knob
from devices.errors import InputError
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from tuner.models.analytic import AnalyticModel, Interval, Point, profile_points
from tuner.models.analytic_device import AnalyticDevice, predicted_profile

KNOBS = (Knob("gpu_freq_mhz", (300, 500, 900)), Knob("batch_size", (4, 8, 16)))
VALUES = {"t0": 0.02, "t1": 0.004, "c0": 0.001, "c1": 0.003, "p0": 4.0, "p1": 5.0, "p3": 3.0, "w": 0.3}
SETTING: Any = {"gpu_freq_mhz": 300, "batch_size": 4}
MODEL = AnalyticModel.of_coefficients(KNOBS, VALUES)
ABSURD: list[Any] = [0, -1, math.nan, math.inf, -math.inf, None, "x", (1,), 1e-320, 1e-300, 1e300, 10**400, 1e-49, 1e49]
NOTHING: Any = None


def profile(setting: Any = SETTING, *, unit: str = "samples/s", status: Status = Status.OK, **figures: Any) -> Profile:
    row = ProfileRow(setting, status, **{"throughput": 2.0, **figures})
    return Profile(ProfileMetadata(throughput_unit=unit), tuple(setting), (row,))


PLACES: dict[str, Callable[[Any], object]] = {
    "step time": lambda v: AnalyticModel.fit(KNOBS, [Point(SETTING, v)]),
    "power": lambda v: AnalyticModel.fit(KNOBS, [Point(SETTING, 0.1, v)]),
    "error": lambda v: AnalyticModel.fit(KNOBS, [Point(SETTING, 0.1, step_time_error=v)]),
    "clock of a point": lambda v: AnalyticModel.fit(KNOBS, [Point({**SETTING, "gpu_freq_mhz": v}, 0.1)]),
    "weight": lambda v: AnalyticModel.fit(KNOBS, [Point(SETTING, 0.1)], prior_weight=v),
    "fixed": lambda v: AnalyticModel.fit(KNOBS, [Point(SETTING, 0.1, 3.0)], fixed={"t0": v}),
    "coefficient": lambda v: AnalyticModel.of_coefficients(KNOBS, {**VALUES, "t1": v}),
    "scale": lambda v: AnalyticModel.of_coefficients(KNOBS, {**VALUES, "c1": v}),
    "value of a knob": lambda v: AnalyticModel.fit((Knob("cpu_cores", (v,)),), [Point({"cpu_cores": 2}, 0.1)]),
    "clock": lambda v: MODEL.predict({**SETTING, "gpu_freq_mhz": v}),
    "batch": lambda v: MODEL.predict({**SETTING, "batch_size": v}),
    "logarithms": lambda v: MODEL.log_values([{**SETTING, "batch_size": v}]),
    "cap": lambda v: MODEL.optimum([SETTING], v),
    "throughput of a row": lambda v: AnalyticModel.of_profile(profile(throughput=v)),
    "power of a row": lambda v: AnalyticModel.of_profile(profile(power_mean_w=v)),
    "batch of a row": lambda v: AnalyticModel.of_profile(profile({"batch_size": v})),
    "noise": lambda v: AnalyticDevice(MODEL, noise_throughput=v),
    "seed": lambda v: AnalyticDevice(MODEL, seed=v),
    "value of the device": lambda v: AnalyticDevice(MODEL, values={"gpu_freq_mhz": [v]}),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_number_is_used_or_refused(place: str) -> None:
    for value in ABSURD:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = PLACES[place](value)
            except InputError:
                continue
        if isinstance(found, AnalyticModel):
            found = found.predict({knob.name: knob.values[0] for knob in found.knobs})
        for interval in vars(found).values() if hasattr(found, "__dict__") else ():
            if isinstance(interval, Interval):
                assert math.isfinite(interval.value), (value, found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: AnalyticModel.fit(NOTHING, [Point(SETTING, 0.1)]), r"the knobs of an analytic model are a list"),
        (lambda: AnalyticModel.fit(KNOBS, NOTHING), r"the points of a fit are a list, not None"),
        (lambda: AnalyticModel.fit(KNOBS, [(SETTING, 0.1)]), r"each of the points of a fit is a Point"),  # type: ignore[list-item]
        (lambda: AnalyticModel.fit(KNOBS + KNOBS, [Point(SETTING, 0.1)]), r"each knob once, and gpu_freq_mhz more"),
        (lambda: AnalyticModel.fit(KNOBS, [Point({**SETTING, "odd": 1}, 0.1)]), r"has odd, which is no knob"),
        (lambda: AnalyticModel.of_coefficients(KNOBS, NOTHING), r"needs a value for t0, t1, c0, c1"),
        (lambda: AnalyticModel.of_coefficients(KNOBS, [1]), r"coefficients are values by name, not \[1\]"),  # type: ignore[arg-type]
        (lambda: AnalyticModel.of_profile(NOTHING), r"fitted to a Profile, not None"),
        (lambda: AnalyticModel.of_profile(profile(unit="steps/day")), r"'steps/day' does not end in"),
        (lambda: AnalyticModel.of_profile(profile({"gpu_freq_mhz": "fast"})), r"a value of the knob gpu_freq_mhz is"),
        (lambda: MODEL.predict({**SETTING, "odd": 1}), r"has odd, which is no knob of the model"),
        (lambda: MODEL.predict_all(SETTING), r"settings are a list of them, not the one"),
        (lambda: MODEL.log_values([{"gpu_freq_mhz": 3}]), r"has no batch_size"),
        (lambda: MODEL.merit([]), r"one setting or more"),
        (lambda: MODEL.optimum(NOTHING), r"settings are a list"),
        (lambda: AnalyticDevice(NOTHING), r"answers for an AnalyticModel, not None"),
        (lambda: AnalyticDevice(MODEL, values={"odd": [1]}), r"no knob 'odd'"),
        (lambda: predicted_profile(MODEL, []), r"one row or more"),
    ],
)
def test_what_is_no_argument(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_points_and_settings_may_come_one_by_one() -> None:
    points: Any = (Point(SETTING, 0.1, 3.0) for _ in range(2))
    model = AnalyticModel.fit(KNOBS, points)
    assert model.points == 2
    assert model.optimum(iter([SETTING])) == model.optimum([SETTING])  # type: ignore[arg-type]
    assert model.predict_all([]) == []


def test_caps_below_and_above_everything() -> None:
    settings = [{"gpu_freq_mhz": f, "batch_size": b} for f in (300, 900) for b in (4, 16)]
    assert MODEL.optimum(settings, 1e-9) is None
    assert MODEL.optimum(settings, 1e9) == MODEL.optimum(settings)


def test_a_model_without_power_is_asked_for() -> None:
    recorded = profile(power_mean_w=3.0)
    assert AnalyticModel.of_profile(recorded).powered
    assert not AnalyticModel.of_profile(recorded, statistic=None).powered
    assert profile_points(recorded, None)[0].power_w is None
    other = ProfileRow({**SETTING, "batch_size": 8}, Status.OK, throughput=2.0)  # a row whose power was not recorded
    partly = Profile(recorded.metadata, recorded.knob_names, (*recorded.rows, other))
    with pytest.raises(InputError, match=r"^the profile records no p95 of power, only mean$"):
        AnalyticModel.of_profile(partly, statistic="p95")
