"""Coefficients come back from their own points, are as sure as they should be, and hypotheses are weighed rightly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from devices.device import BATCH_KNOB, Knob, Setting
from tuner.models.coefficients import SIZES, Belief, Readings, draw, optimize, starts, weigh
from tuner.models.forms import Array, Form

CLOCK = Knob("gpu_freq_mhz", (300, 450, 600, 750, 900))
BATCH = Knob(BATCH_KNOB, (4, 8, 16, 32, 64))
FORM = Form((CLOCK, BATCH))
PLAIN = Form((CLOCK, BATCH), plain=True)
GRID = [{CLOCK.name: c, BATCH.name: b} for c, b in itertools.product(CLOCK.values, BATCH.values)]
CORNERS = [GRID[0], GRID[4], GRID[-5], GRID[-1]]
NO_ROUGHNESS = np.zeros(2)


def readings_of(form: Form, theta: Array, settings: Sequence[Setting], sem: float, **drawn: float | int) -> Readings:
    """Step time and power at each setting; with `seed` noise is drawn, with `residual` one of that size besides."""
    n = len(settings)
    row, output = np.tile(np.arange(n), 2), np.repeat([0, 1], n)
    columns = form.columns(settings)
    value = np.concatenate(form.log_values(theta, columns))
    if "seed" in drawn:
        rng = np.random.default_rng(int(drawn["seed"]))
        root = np.linalg.cholesky(correlation(form, settings) + 1e-9 * np.eye(n))
        residual = drawn.get("residual", 0.0) * (root @ rng.standard_normal((n, 2))).T.ravel()
        value = value + residual + sem * rng.standard_normal(2 * n)
    return Readings(columns, row, output, value, np.full(2 * n, sem**2))


def correlation(form: Form, settings: Sequence[Setting]) -> Array:
    columns = form.columns(settings)
    places = np.column_stack([2 * columns[CLOCK.name], np.log2(columns[BATCH.name]) / 3])
    return np.asarray(np.exp(-np.abs(places[:, None] - places[None]).sum(-1)))


def weighed(form: Form, readings: Readings, settings: Sequence[Setting], *beliefs: Belief) -> tuple[Array, Array]:
    """Posterior probabilities of the residual's sizes, (time, power), and of the beliefs."""
    found = weigh(
        form,
        readings,
        correlation(form, settings),
        np.eye(len(settings)),
        NO_ROUGHNESS,
        beliefs or (Belief.independent(form.mean, form.sd),),
    )
    sizes = np.array([[found.weight[found.size[:, j] == s].sum() for s in SIZES[j]] for j in (0, 1)])
    return sizes, np.array([found.weight[found.belief == b].sum() for b in range(len(beliefs))])


@pytest.mark.parametrize("seed", range(4))
def test_exact_points_give_back_the_coefficients(seed: int) -> None:
    true = PLAIN.mean + 0.7 * PLAIN.sd.clip(max=1.0) * np.random.default_rng(seed).standard_normal(len(PLAIN.mean))
    readings = readings_of(PLAIN, true, GRID, 1e-5)
    (found,), (loss,), (curvature,) = optimize(
        PLAIN,
        readings,
        readings.value[None],
        np.diag(1 / readings.variance)[None],
        PLAIN.mean[None],
        np.diag(1 / PLAIN.sd**2)[None],
        starts(PLAIN, readings, PLAIN.mean),
        60,
    )
    assert found == pytest.approx(true, abs=0.02)
    assert readings.predict(PLAIN, found) == pytest.approx(readings.value, abs=1e-4)
    assert loss < 20
    assert (np.linalg.eigvalsh(curvature) > 0).all()


def test_many_problems_at_a_time_are_as_each_alone() -> None:
    truths = FORM.mean + 0.5 * np.random.default_rng(1).standard_normal((3, len(FORM.mean)))
    several = [readings_of(FORM, true, GRID[::3], 0.01) for true in truths]
    value = np.array([readings.value for readings in several])
    precision = np.diag(1 / several[0].variance)
    together, losses, _ = optimize(
        FORM,
        several[0],
        value,
        np.array([precision] * 3),
        np.array([FORM.mean] * 3),
        np.array([np.diag(1 / FORM.sd**2)] * 3),
        np.array([FORM.mean] * 3),
        8,
    )
    for i, readings in enumerate(several):
        _, (loss,), _ = optimize(
            FORM,
            readings,
            value[i : i + 1],
            precision[None],
            FORM.mean[None],
            np.diag(1 / FORM.sd**2)[None],
            FORM.mean[None],
            8,
        )
        assert losses[i] == pytest.approx(loss, rel=0.05, abs=0.1)
        assert readings.predict(FORM, together[i]) == pytest.approx(readings.value, abs=0.03)


def test_a_problem_without_readings_of_a_coefficient_keeps_its_prior() -> None:
    """Bursts the guard ended say nothing of time."""
    whole = readings_of(FORM, FORM.mean + 0.3, CORNERS, 0.01)
    power = whole.output == 1
    readings = Readings(whole.columns, whole.row[power], whole.output[power], whole.value[power], whole.variance[power])
    (found,), _, _ = optimize(
        FORM,
        readings,
        readings.value[None],
        np.diag(1 / readings.variance)[None],
        FORM.mean[None],
        np.diag(1 / FORM.sd**2)[None],
        FORM.mean[None],
        20,
    )
    assert found[FORM.index["time"]] == FORM.mean[FORM.index["time"]]
    assert readings.predict(FORM, found) == pytest.approx(readings.value, abs=0.02)


def spread(settings: Sequence[Setting], sem: float = 0.01) -> Array:
    """Standard deviations of coefficients' samples."""
    readings = readings_of(FORM, FORM.mean, settings, sem)
    belief = Belief.independent(FORM.mean, FORM.sd)
    found = weigh(FORM, readings, correlation(FORM, settings), np.eye(len(settings)), NO_ROUGHNESS, [belief])
    return np.asarray(draw(FORM, readings, found, [belief], 64, 0)[0].std(0))


def test_samples_come_together_with_more_points() -> None:
    few, many = spread(GRID[:1]), spread(GRID)
    assert (many <= 1.3 * few).all()
    for name in ("time", "power", "t0", "c0", "p0"):
        assert many[FORM.index[name]] < 0.8 * few[FORM.index[name]]
    assert (few <= 1.5 * FORM.sd).all()


def test_samples_spread_as_the_prior_where_nothing_was_read_of_them() -> None:
    found = spread(GRID[:1])
    unknown = [FORM.index[name] for name in ("delta", "hump")]
    assert found[unknown] == pytest.approx(FORM.sd[unknown], rel=0.35)


def test_samples_cover_the_truth() -> None:
    """Truths drawn from the prior lie within the samples' spread of a setting never read as often as promised."""
    belief, columns, away = Belief.independent(FORM.mean, FORM.sd), FORM.columns(GRID[-1:]), []
    rng = np.random.default_rng(5)
    for seed in range(24):
        true = FORM.mean + FORM.sd * rng.standard_normal(len(FORM.mean))
        settings = [GRID[i] for i in (0, 4, 7, 12)]
        readings = readings_of(FORM, true, settings, 0.02, seed=seed, residual=0.06)
        found = weigh(FORM, readings, correlation(FORM, settings), np.eye(len(settings)), NO_ROUGHNESS, [belief])
        theta, _ = draw(FORM, readings, found, [belief], 48, seed)
        samples = np.concatenate(FORM.log_values(theta, columns), axis=1)
        truth = np.concatenate(FORM.log_values(true, columns))
        away.append((truth - samples.mean(0)) / np.hypot(samples.std(0), 0.01))
    deviations = np.abs(np.array(away))
    assert 0.5 <= (deviations < 1).mean() <= 0.95
    assert (deviations < 2).mean() >= 0.85


def test_equal_seeds_draw_equal_samples() -> None:
    readings, belief = readings_of(FORM, FORM.mean, CORNERS, 0.01), Belief.independent(FORM.mean, FORM.sd)
    found = weigh(FORM, readings, correlation(FORM, CORNERS), np.eye(len(CORNERS)), NO_ROUGHNESS, [belief])
    first, again, other = (draw(FORM, readings, found, [belief], 16, seed)[0] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(("size", "likeliest"), [(0.0, 0), (0.12, 2)])
def test_the_evidence_prefers_the_size_of_what_the_form_cannot_say(size: float, likeliest: int) -> None:
    readings = readings_of(FORM, FORM.mean + 0.2, GRID, 0.005, seed=3, residual=size)
    sizes, _ = weighed(FORM, readings, GRID)
    assert list(sizes.argmax(1)) == [likeliest, likeliest]
    assert (sizes[:, likeliest] > 0.6).all()


def test_one_point_leaves_the_sizes_where_they_were() -> None:
    sizes, _ = weighed(FORM, readings_of(FORM, FORM.mean, GRID[:1], 0.01), GRID[:1])
    assert sizes == pytest.approx(np.array([[0.25, 0.5, 0.25]] * 2), abs=0.1)


def test_the_evidence_prefers_the_belief_that_was_right() -> None:
    true = FORM.mean.copy()
    true[[FORM.index["c0"], FORM.index["p3"]]] += [2.0, -2.0]
    narrow = np.minimum(FORM.sd, 0.5)
    right, wrong = Belief.independent(true, narrow), Belief.independent(2 * FORM.mean - true, narrow)
    readings = readings_of(FORM, true, GRID, 0.01, seed=0)
    for beliefs, best in (((wrong, right), 1), ((right, wrong), 0)):
        _, weights = weighed(FORM, readings, GRID, *beliefs)
        assert weights.argmax() == best
        assert weights.max() > 0.95
        assert weights.sum() == pytest.approx(1)


def test_a_belief_that_says_little_yields_to_one_that_says_it_rightly() -> None:
    sharp, vague = Belief.independent(FORM.mean, FORM.sd / 4), Belief.independent(FORM.mean, FORM.sd * 2)
    _, weights = weighed(FORM, readings_of(FORM, FORM.mean, GRID[::2], 0.01), GRID[::2], vague, sharp)
    assert weights[1] > 0.9


def test_what_two_equal_beliefs_weighed_before_they_weigh_after() -> None:
    beliefs = [Belief.independent(FORM.mean, FORM.sd, log_weight) for log_weight in (0.0, np.log(3.0))]
    _, weights = weighed(FORM, readings_of(FORM, FORM.mean, CORNERS, 0.01), CORNERS, *beliefs)
    assert weights == pytest.approx([0.25, 0.75], abs=1e-6)
