"""The process keeps to its readings, and knows where it knows little."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from devices.device import BATCH_KNOB, Knob, Setting
from tuner.models.coefficients import Belief
from tuner.models.forms import Array, Form
from tuner.models.process import ROUGHNESS, SAMPLES, AnalyticProcess

CLOCK = Knob("gpu_freq_mhz", (300, 450, 600, 750, 900))
BATCH = Knob(BATCH_KNOB, (4, 8, 16, 32, 64))
KNOBS = (CLOCK, BATCH)
GRID = [{CLOCK.name: c, BATCH.name: b} for c, b in itertools.product(CLOCK.values, BATCH.values)]
READ = [GRID[i] for i in (0, 4, 12, 16)]
FORM = Form(KNOBS)
TIME, POWER = 0, 1


def truth(setting: Setting) -> tuple[float, float]:
    """Logarithms that no coefficients of the form give exactly."""
    f, b = setting[CLOCK.name] / 900, setting[BATCH.name] / 16
    wave = math.sin(5 * f) * math.sin(2 * math.log(b))
    return math.log(0.05 + 0.1 * b / f) + 0.1 * wave, math.log(3 + 4 * f + 2 * f**3) - 0.06 * wave


def process(settings: Sequence[Setting] = READ, sem: float = 0.01, seed: int = 0, off: float = 0.0) -> AnalyticProcess:
    """From readings of both outputs; the first of each is off by that much."""
    n = len(settings)
    value = np.array([truth(s) for s in settings]).T.copy()
    value[:, 0] += off
    return AnalyticProcess(
        KNOBS,
        FORM,
        settings,
        [TIME] * n + [POWER] * n,
        [*range(n), *range(n)],
        value.ravel().tolist(),
        [sem**2] * (2 * n),
        [Belief.independent(FORM.mean, FORM.sd)],
        seed,
    )


def moments(model: AnalyticProcess, settings: Sequence[Setting]) -> tuple[Array, Array]:
    """Means and standard deviations over the whole ensemble, shape (2, n) each."""
    mean, sd = model.predict(settings)
    return mean.mean(0), np.sqrt((sd**2).mean(0) + mean.var(0))


def test_predictions_are_of_every_sample_output_and_setting() -> None:
    mean, sd = process().predict(GRID)
    assert mean.shape == sd.shape == (SAMPLES, 2, len(GRID))
    assert (sd > 0).all()


@pytest.mark.parametrize("sem", [1e-4, 0.01])
def test_readings_are_met_to_within_their_noise(sem: float) -> None:
    mean, sd = moments(process(GRID[::2], sem), GRID[::2])
    expected = np.array([truth(s) for s in GRID[::2]]).T
    assert (np.abs(mean - expected) < 2 * sem + 1e-3).all()
    assert (sd < 1.2 * np.hypot(sem, 1e-3)).all()


def test_a_noisy_reading_is_not_believed_alone() -> None:
    """One reading is off by ten per cent: a process told so believes its neighbours, one told otherwise the reading."""
    settings = [GRID[6], *(GRID[i] for i in (1, 5, 7, 11, 12))]
    right = np.array(truth(GRID[6]))
    doubting, believing = (moments(process(settings, sem, off=0.1), [GRID[6]])[0][:, 0] - right for sem in (0.2, 1e-4))
    assert believing == pytest.approx([0.1, 0.1], abs=2e-3)
    assert (np.abs(doubting) < 0.07).all()


def test_uncertainty_is_small_where_it_was_read_and_grows_away() -> None:
    _, sd = moments(process(), [READ[0], GRID[1], GRID[2], GRID[24]])
    for j in (TIME, POWER):
        assert sd[j, 0] < 0.012
        assert sd[j, 1] > 1.5 * sd[j, 0]
        assert sd[j, 3] > 2 * sd[j, 0]


@pytest.mark.parametrize(("clock", "alike"), [(899, True), (895, True), (600, False)])
def test_roughness_reaches_no_further_than_the_like_of_a_setting(clock: int, alike: bool) -> None:
    """The next entry of a usual list has its own; that of a fine list does not."""
    form = Form((Knob(CLOCK.name, (clock, 900)), BATCH))
    there, beside = {CLOCK.name: 900, BATCH.name: 16}, {CLOCK.name: clock, BATCH.name: 16}
    model = AnalyticProcess(
        (Knob(CLOCK.name, (300, 900)), BATCH),
        form,
        [there],
        [TIME, POWER],
        [0, 0],
        [0.0, 2.0],
        [1e-8, 1e-8],
        [Belief.independent(form.mean, form.sd)],
        0,
    )
    _, sd = moments(model, [there, beside])
    assert (sd[:, 0] < ROUGHNESS / 5).all()
    assert ((sd[:, 1] < ROUGHNESS / 2) if alike else (sd[:, 1] > 1.3 * ROUGHNESS)).all()


def test_more_readings_make_it_surer_everywhere() -> None:
    _, few = moments(process(), GRID)
    _, many = moments(process(GRID[::2]), GRID)
    assert (many <= few + 2e-3).all()
    assert many.mean() < 0.7 * few.mean()


def test_a_truth_that_was_not_read_lies_within_the_spread() -> None:
    mean, sd = moments(process(GRID[::2]), GRID[1::2])
    away = (np.array([truth(s) for s in GRID[1::2]]).T - mean) / sd
    assert (np.abs(away) < 3).all()
    assert (np.abs(away) < 2).mean() > 0.65


def test_equal_seeds_are_equal_and_others_differ() -> None:
    first, again, other = (process(seed=seed).predict(GRID) for seed in (1, 1, 2))
    assert all((mine == its).all() for mine, its in zip(first, again, strict=True))
    assert (first[0] != other[0]).any()


def test_the_order_of_settings_is_the_callers() -> None:
    model = process()
    mean, sd = model.predict(GRID)
    turned_mean, turned_sd = model.predict(GRID[::-1])
    assert turned_mean[..., ::-1] == pytest.approx(mean)
    assert turned_sd[..., ::-1] == pytest.approx(sd)


def test_power_alone_can_be_read() -> None:
    """Bursts that the guard ended say nothing of time."""
    model = AnalyticProcess(
        KNOBS, FORM, READ[:1], [POWER], [0], [math.log(9.0)], [1e-4], [Belief.independent(FORM.mean, FORM.sd)], 0
    )
    mean, sd = moments(model, READ[:1])
    assert mean[POWER, 0] == pytest.approx(math.log(9.0), abs=0.02)
    assert sd[TIME, 0] > 1
