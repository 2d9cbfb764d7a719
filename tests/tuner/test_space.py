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


def test_the_safe_start_is_slow_with_a_middle_batch() -> None:
    assert space(CLOCK, BATCH).safe_start() == {"gpu_freq_mhz": 300, "batch_size": 16}
    recorded: tuple[Setting, ...] = ({"gpu_freq_mhz": 300, "batch_size": 64}, {"gpu_freq_mhz": 600, "batch_size": 16})
    assert space(CLOCK, BATCH, settings=recorded).safe_start() == recorded[0]


def test_values_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(InputError, match="ascend"):
        Knob("gpu_freq_mhz", (400, 300))
    with pytest.raises(InputError, match="no value"):
        Knob("gpu_freq_mhz", ())


HUGE = space(*(Knob(name, tuple(range(1, 1001))) for name in ("a", "b", "c", "d")), BATCH)


def test_a_product_is_not_enumerated() -> None:
    """5 million million settings: whatever looked at them all would not return."""
    assert len(HUGE) == 5 * 10**12
    first, last = dict.fromkeys((*"abcd", "batch_size"), 1), {**dict.fromkeys("abcd", 1000), "batch_size": 256}
    assert (HUGE.settings[0], HUGE.settings[-1], next(iter(HUGE.settings))) == (first, last, first)
    assert last in HUGE
    assert {**last, "c": 1001} not in HUGE
    assert len(HUGE.part({BATCH.name: (1, 4, 16)})) == 3 * 10**12
    assert HUGE.safe_start() == {**first, "batch_size": 16}
    assert len(HUGE.part(dict.fromkeys("abc", (5, 7)))) == 8 * 5000
    assert len(HUGE.part({"a": (0.5,)})) == 0
    untried = HUGE.untried([first, last, first, {**first, "d": 2000}])
    assert len(untried) == 5 * 10**12 - 2
    assert (untried[0], untried[-1]) == ({**first, "batch_size": 4}, {**last, "batch_size": 64})
    assert first not in untried


def test_untried_settings_are_those_that_are_left_in_order() -> None:
    whole = space(CLOCK, BATCH)
    listed = space(CLOCK, BATCH, settings=tuple(whole.settings))
    tried = [whole.settings[i] for i in (0, 19, 7, 8, 7)]
    untried = whole.untried(tried)
    assert [*untried] == [untried[i] for i in range(len(untried))] == [*listed.untried(tried)]
    assert untried[2:5] == tuple(untried)[2:5]
    assert [s in untried for s in whole.settings] == [s not in tried for s in whole.settings]
    with pytest.raises(IndexError):
        untried[16]


def test_a_part_of_a_record_is_what_was_recorded_of_it() -> None:
    recorded: tuple[Setting, ...] = ({"gpu_freq_mhz": 300, "batch_size": 64}, {"gpu_freq_mhz": 600, "batch_size": 16})
    part = space(CLOCK, BATCH, settings=recorded).part({"gpu_freq_mhz": (300, 400)})
    assert (part.settings, part.knobs[0].values) == (recorded[:1], (300, 400))
