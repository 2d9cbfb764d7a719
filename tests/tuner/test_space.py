from __future__ import annotations

import numpy as np
import pytest

from devices.device import DeviceInfo, Knob, Setting
from devices.errors import InputError
from tuner.space import Space

CLOCK = Knob("gpu_freq_mhz", (300, 400, 500, 600))
BATCH = Knob("batch_size", (1, 4, 16, 64, 256))


def space(*knobs: Knob, settings: tuple[Setting, ...] | None = None) -> Space:
    return Space.of(DeviceInfo("toy", "emulated", knobs, settings=settings))


def test_every_setting_once() -> None:
    whole = space(CLOCK, BATCH)
    assert len(whole) == 20
    assert whole.settings[0] == {"gpu_freq_mhz": 300, "batch_size": 1}
    assert {"gpu_freq_mhz": 600.0, "batch_size": 64.0} in whole
    assert {"gpu_freq_mhz": 601, "batch_size": 64} not in whole
    assert all(whole.setting(whole.key(setting)) == setting for setting in whole.settings)


def test_features_are_in_the_unit_cube_and_wide_knobs_logarithmic() -> None:
    whole = space(CLOCK, BATCH)
    x = whole.features(whole.settings)
    assert x.shape == (20, 2)
    assert x.min() == 0
    assert x.max() == 1
    assert np.allclose(sorted(set(x[:, 1])), [0, 0.25, 0.5, 0.75, 1])
    assert np.allclose(sorted(set(x[:, 0])), [0, 1 / 3, 2 / 3, 1])


def test_a_knob_with_one_value_is_no_dimension() -> None:
    whole = space(Knob("gpu_freq_mhz", (306,)), BATCH)
    assert whole.free == (BATCH,)
    assert whole.features(whole.settings).shape == (5, 1)


def test_below_a_batch_size() -> None:
    whole = space(CLOCK, BATCH)
    assert {setting["batch_size"] for setting in whole.below_batch(64).settings} == {1, 4, 16}
    assert len(whole.below_batch(1)) == 0
    assert len(whole.below_batch(1000)) == 20


def test_the_safe_start_is_slow_with_a_middle_batch() -> None:
    assert space(CLOCK, BATCH).safe_start() == {"gpu_freq_mhz": 300, "batch_size": 16}
    recorded: tuple[Setting, ...] = ({"gpu_freq_mhz": 300, "batch_size": 64}, {"gpu_freq_mhz": 600, "batch_size": 16})
    assert space(CLOCK, BATCH, settings=recorded).safe_start() == recorded[0]


def test_values_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(InputError, match="ascend"):
        Knob("gpu_freq_mhz", (400, 300))
    with pytest.raises(InputError, match="no value"):
        Knob("gpu_freq_mhz", ())
