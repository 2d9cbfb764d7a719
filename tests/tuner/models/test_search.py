"""The setting that is worth most is found in spaces too large to look at every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from devices.device import BATCH_KNOB, Setting
from tests.tuner.large import KNOBS
from tuner.models.forms import Array
from tuner.models.search import ENUMERATED, most_worth
from tuner.space import Product, Space

LARGE = Space(KNOBS, Product(KNOBS))
TOP = {knob.name: knob.values[len(knob.values) // 2] for knob in KNOBS}
PEAK = LARGE.features([TOP])


def hill(settings: Sequence[Setting]) -> Array:
    """Highest at `TOP`, nothing at the lowest GPU clocks."""
    x = LARGE.features(settings)
    return np.where(x[:, 0] > 0.2, -((x - PEAK) ** 2).sum(1), -np.inf)


def test_the_top_of_a_hill_is_found_with_few_looks() -> None:
    looks = 0

    def counted(settings: Sequence[Setting]) -> Array:
        nonlocal looks
        looks += len(settings)
        return hill(settings)

    assert most_worth(LARGE, counted, [], (0,)) == (TOP, 0.0)
    assert looks < ENUMERATED


def test_a_tried_setting_is_not_found_again() -> None:
    tried: list[Setting] = []
    for _ in range(4):
        found, worth = most_worth(LARGE, hill, tried, (0, len(tried)))
        assert found is not None
        assert found not in tried
        assert worth > -0.02
        tried.append(found)


def test_equal_seeds_find_the_same() -> None:
    def rugged(settings: Sequence[Setting]) -> Array:
        return np.asarray(np.sin(1e3 * LARGE.features(settings) @ np.arange(1, 6)))

    assert most_worth(LARGE, rugged, [], (1, 2)) == most_worth(LARGE, rugged, [], (1, 2))
    assert most_worth(LARGE, rugged, [], (1, 2)) != most_worth(LARGE, rugged, [], (1, 3))


@pytest.mark.parametrize("space", [LARGE, LARGE.part({BATCH_KNOB: (8,), "cpu_cores": (1, 2)})])
def test_nothing_where_nothing_is_worth_it(space: Space) -> None:
    assert most_worth(space, lambda settings: np.full(len(settings), -np.inf), [], (0,)) == (None, -np.inf)


def test_what_rises_with_every_knob_is_found_at_the_corner() -> None:
    corner = {knob.name: knob.values[0] for knob in KNOBS}

    def needle(settings: Sequence[Setting]) -> Array:
        return np.where(LARGE.features(settings).sum(1) == 0, 1.0, 0.0)

    assert most_worth(LARGE, needle, [], (0,)) == (corner, 1.0)


def test_of_a_long_record_only_what_was_recorded() -> None:
    recorded = replace(LARGE, settings=LARGE.settings[::17])
    for seed in range(3):
        found, worth = most_worth(recorded, hill, [], (seed,))
        assert found in recorded.settings
        assert worth > -0.1
