"""What the forms say in their limits: the published curves, and what each knob can and cannot do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from devices.device import BATCH_KNOB, Knob, Setting
from tuner.models.forms import Array, Form

CLOCK = Knob("gpu_freq_mhz", (300, 450, 600, 750, 900))
BATCH = Knob(BATCH_KNOB, (4, 8, 16, 32, 64))
CPU = Knob("cpu_freq_mhz", (800, 1200, 1600))
CORES = Knob("cpu_cores", (2, 4, 6))
EMC = Knob("emc_freq_mhz", (800, 1600, 3200))
THREADS = Knob("cpu_threads", (1, 2, 4))
LIMIT = Knob("power_limit_w", (100, 150, 200, 300))
WORKERS = Knob("workers", (1, 2, 8))
BOARD = (CLOCK, BATCH, CPU, CORES, EMC)


def coefficients(form: Form, **values: float) -> Array:
    """The prior's means with some coefficients set, as the form has them: logarithms, logits."""
    theta = form.mean.copy()
    for name, value in values.items():
        theta[form.index[name]] = value
    return theta


def drawn(form: Form, count: int = 40) -> Array:
    return form.mean + form.sd * np.random.default_rng(0).standard_normal((count, len(form.mean)))


def middle(form: Form, **values: float) -> Setting:
    """A setting in the middle of every list but for the values given."""
    return {knob.name: values.get(knob.name, knob.values[len(knob.values) // 2]) for knob in form.knobs.values()}


def along(form: Form, knob: Knob, theta: Array) -> tuple[Array, Array]:
    """Logarithms of step time and power over one knob."""
    return form.log_values(theta, form.columns([middle(form, **{knob.name: v}) for v in knob.values]))


def test_plain_forms_are_the_published_ones() -> None:
    form = Form((CLOCK, BATCH), plain=True)
    theta = coefficients(form, time=-1.0, t0=-0.7, t1=-1.2, c0=-1.5, power=2.0, p0=-0.4, p3=0.5, w=-0.8)
    assert set(form.index) == {"time", "t0", "t1", "c0", "power", "p0", "p3", "w"}
    share_p3, share_w = (1 / (1 + math.exp(-x)) for x in (0.5, -0.8))
    for clock in CLOCK.values:
        for batch in BATCH.values:
            f, b = clock / 900, batch / 16
            accelerator = math.exp(-1.2) / f + b * (math.exp(-1.5) + 1 / f)
            time = math.exp(-0.7) + accelerator
            busy = (accelerator + share_w * (time - accelerator)) / time
            power = math.exp(-0.4) + busy * ((1 - share_p3) * f + share_p3 * f**3)
            columns = form.columns([{CLOCK.name: clock, BATCH.name: batch}])
            log_time, log_power = form.log_values(theta, columns)
            assert log_time[0] == pytest.approx(-1.0 + math.log(time))
            assert log_power[0] == pytest.approx(2.0 + math.log(power))


def test_without_overlap_the_whole_form_is_the_plain_one() -> None:
    whole, plain = Form((CLOCK, BATCH)), Form((CLOCK, BATCH), plain=True)
    theta = coefficients(whole, rho=0.0, delta=0.0, hump=0.0, c_cpu=-60.0)
    same = np.array([theta[whole.index[c.name]] for c in plain.coefficients])
    for knob in (CLOCK, BATCH):
        for mine, other in zip(along(whole, knob, theta), along(plain, knob, same), strict=True):
            assert mine == pytest.approx(other)


def test_with_much_overlap_the_longer_one_decides() -> None:
    form = Form((CLOCK,))
    theta = coefficients(form, time=0.0, rho=6.0, t0=2.0)
    time, _ = along(form, CLOCK, theta)
    assert time == pytest.approx(np.full(len(CLOCK.values), 2.0))


@pytest.mark.parametrize("knobs", [BOARD, (LIMIT, BATCH), (CLOCK, BATCH, LIMIT), (CPU, THREADS, BATCH)])
def test_time_rises_with_the_batch_size_but_by_less_than_in_proportion(knobs: tuple[Knob, ...]) -> None:
    form = Form(knobs)
    theta = drawn(form)
    theta[:, form.index["delta"]] = 0.0
    time, _ = along(form, BATCH, theta)
    steps = np.diff(time, axis=1)
    assert (steps > 0).all()
    assert (steps <= math.log(2) + 1e-6).all() or LIMIT in knobs


@pytest.mark.parametrize("knob", [CLOCK, CPU, CORES], ids=lambda knob: knob.name)
def test_time_falls_and_power_rises_with_every_clock(knob: Knob) -> None:
    form = Form(BOARD)
    time, power = along(form, knob, drawn(form))
    assert (np.diff(time, axis=1) < 0).all()
    assert (np.diff(power, axis=1) > 0).all()


def test_a_faster_memory_draws_its_own_power_and_frees_the_accelerator() -> None:
    form = Form(BOARD)
    time, _ = along(form, EMC, drawn(form))
    assert (np.diff(time, axis=1) < 0).all()
    _, hungry = along(form, EMC, coefficients(form, r=1.0))
    assert (np.diff(hungry) > 0).all()
    _, frugal = along(form, EMC, coefficients(form, r=-9.0, q=-9.0, t0=1.0, w=-5.0))  # it works less of the time
    assert (np.diff(frugal) < 0).all()


def test_time_falls_by_no_more_than_the_clock_rises() -> None:
    form = Form((CLOCK, BATCH))
    time, _ = along(form, CLOCK, drawn(form))
    assert (np.diff(time, axis=1) >= -np.diff(np.log(CLOCK.values)) - 1e-9).all()


def test_power_need_not_rise_with_the_batch_size() -> None:
    form = Form((CLOCK, BATCH))
    falling, rising = (along(form, BATCH, coefficients(form, hump=hump, w=6.0))[1] for hump in (-0.2, 0.2))
    assert (np.diff(falling) < 0).all()
    assert (np.diff(rising) > 0).all()


@pytest.mark.parametrize("knobs", [(LIMIT, BATCH), (CLOCK, BATCH, LIMIT)])
def test_a_limit_caps_the_power_and_slows(knobs: tuple[Knob, ...]) -> None:
    form = Form(knobs)
    theta = drawn(form)
    time, power = along(form, LIMIT, theta)
    assert (power <= theta[:, form.index["a"], None] + np.log(LIMIT.values) + 1e-9).all()
    assert (np.diff(power, axis=1) > 0).all()
    assert (np.diff(time, axis=1) <= 1e-9).all()


def test_a_limit_far_below_the_demand_is_what_is_drawn() -> None:
    form = Form((LIMIT, BATCH))
    theta = coefficients(form, power=math.log(3000.0), p0=-6.0, w=6.0, a=0.0, mix=3.0)
    time, power = along(form, LIMIT, theta)
    assert power == pytest.approx(np.log(LIMIT.values), abs=1e-3)
    assert (np.diff(time) < -0.05).all()


def test_a_limit_that_does_not_bind_changes_nothing() -> None:
    limited, free = Form((LIMIT, BATCH)), Form((BATCH,))
    theta = coefficients(limited, power=math.log(20.0), p0=-3.0, a=0.0, mix=3.5)
    same = np.array([theta[limited.index[c.name]] for c in free.coefficients])
    same[free.index["p0"]] = -3.0 + math.log(LIMIT.values[-1] / 20.0)  # the idle power is a share of the highest limit
    expected = along(free, BATCH, same)
    for limit in LIMIT.values:
        columns = limited.columns([{LIMIT.name: limit, BATCH.name: b} for b in BATCH.values])
        for mine, other in zip(limited.log_values(theta, columns), expected, strict=True):
            assert mine == pytest.approx(other, abs=1e-6)


def test_a_limit_below_the_idle_power_leaves_numbers() -> None:
    form = Form((LIMIT, BATCH))
    theta = coefficients(form, p0=3.0)
    for values in along(form, LIMIT, theta):
        assert np.isfinite(values).all()


def test_an_unknown_knob_acts_by_a_power() -> None:
    form = Form((CLOCK, WORKERS))
    theta = coefficients(form, **{"time:workers": 0.6, "power:workers": -0.3})
    time, power = along(form, WORKERS, theta)
    exponent = math.log(8)  # of the list, from the lowest value to the highest
    assert time - time[-1] == pytest.approx(0.6 / exponent * np.log(np.array([1, 2, 8]) / 8))
    assert power - power[-1] == pytest.approx(-0.3 / exponent * np.log(np.array([1, 2, 8]) / 8))


def test_an_unknown_knob_that_can_be_zero_acts_by_an_exponential() -> None:
    knob = Knob("offset", (-1, 0, 3))
    form = Form((knob,))
    time, power = along(form, knob, coefficients(form, **{"time:offset": 2.0}))
    assert time - time[-1] == pytest.approx([-2.0, -1.5, 0.0])
    assert power == pytest.approx(np.full(3, power[0]))


@pytest.mark.parametrize("knob", [*BOARD, THREADS, LIMIT, WORKERS], ids=lambda knob: knob.name)
def test_one_knob_alone(knob: Knob) -> None:
    form = Form((knob,))
    time, power = along(form, knob, drawn(form))
    assert time.shape == power.shape == (40, len(knob.values))
    assert np.isfinite([time.min(), time.max(), power.min(), power.max()]).all()
    if knob is not WORKERS:
        assert (np.diff(time, axis=1) > 0).all() if knob is BATCH else (np.diff(time, axis=1) <= 1e-12).all()


def test_without_a_batch_knob_nothing_depends_on_one() -> None:
    form = Form((CLOCK,))
    assert not {"c0", "delta", "hump", "c_cpu"} & set(form.index)
    theta = coefficients(form, time=0.0, t0=-1.0, t1=-2.0, rho=0.0)
    time, _ = along(form, CLOCK, theta)
    f = np.array(CLOCK.values) / 900
    assert np.exp(time) == pytest.approx(math.exp(-1.0) + (math.exp(-2.0) + 1) / f)


def test_many_coefficients_at_a_time() -> None:
    form = Form((CLOCK, BATCH, LIMIT, WORKERS))
    theta = drawn(form, 6).reshape(3, 2, -1)
    columns = form.columns([middle(form, batch_size=b) for b in BATCH.values])
    both = form.log_values(theta, columns)
    assert [values.shape for values in both] == [(3, 2, 5)] * 2
    for i in range(3):
        for j in range(2):
            for whole, single in zip(both, form.log_values(theta[i, j], columns), strict=True):
                assert whole[i, j] == pytest.approx(single)


def test_threads_are_the_clock_of_a_machine_without_accelerator() -> None:
    threads, clocks = Form((THREADS, BATCH)), Form((Knob("gpu_freq_mhz", (200, 400, 800)), BATCH))
    assert threads.index == clocks.index
    theta = drawn(threads)
    for mine, other in zip(
        along(threads, THREADS, theta), along(clocks, clocks.knobs["gpu_freq_mhz"], theta), strict=True
    ):
        assert mine == pytest.approx(other)


def test_the_cpu_clock_and_its_cores_work_together() -> None:
    form = Form((CPU, THREADS, BATCH))
    theta = drawn(form)
    slow_wide = form.columns([{CPU.name: 800, THREADS.name: 4, BATCH.name: 16}])
    fast_narrow = form.columns([{CPU.name: 1600, THREADS.name: 2, BATCH.name: 16}])
    for mine, other in zip(form.log_values(theta, slow_wide), form.log_values(theta, fast_narrow), strict=True):
        assert mine == pytest.approx(other)


def test_a_knob_of_one_value_changes_nothing() -> None:
    form = Form((CLOCK, BATCH, Knob("workers", (3,)), Knob("cpu_freq_mhz", (1600,))))
    theta = coefficients(form, **{"time:workers": 9.0, "power:workers": 9.0})
    without = coefficients(form)
    for mine, other in zip(along(form, CLOCK, theta), along(form, CLOCK, without), strict=True):
        assert mine == pytest.approx(other)
    alone = Form((Knob(BATCH_KNOB, (16,)),))
    assert np.isfinite(alone.log_values(alone.mean, alone.columns([{BATCH_KNOB: 16}]))).all()


@pytest.mark.parametrize("knobs", [(CLOCK,), (BATCH,), (CLOCK, BATCH)])
def test_without_physics_every_knob_acts_by_a_power(knobs: tuple[Knob, ...]) -> None:
    form = Form(knobs, physics=False)
    for knob in knobs:
        assert np.isfinite(along(form, knob, drawn(form))).all()
        time, _ = along(form, knob, coefficients(form, **{f"time:{knob.name}": 1.0}))
        span = math.log(knob.values[-1] / knob.values[0])
        assert np.diff(time) == pytest.approx(np.diff(np.log(knob.values)) / span)
