"""The analytic model gives back what made its points, and says how sure it is."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from devices.device import BATCH_KNOB, Knob, Setting
from devices.errors import InputError
from tests.tuner.models.published import PUBLISHED, PublishedFit
from tuner.goal import GOALS
from tuner.models.analytic import AnalyticModel, Point

CLOCK = Knob("gpu_freq_mhz", (300, 500, 700, 900))
KNOBS = {
    knob.name: knob
    for knob in (
        CLOCK,
        Knob(BATCH_KNOB, (4, 8, 16, 32, 64)),
        Knob("cpu_freq_mhz", (800, 1200, 1600)),
        Knob("cpu_cores", (2, 4, 6)),
        Knob("emc_freq_mhz", (800, 1600, 3200)),
        Knob("cpu_threads", (1, 2, 4)),
    )
}
TIME = {"t0": 0.02, "t1": 0.004, "c0": 0.001, "c1": 0.003, "t_cpu": 0.015, "c_cpu": 0.0005, "c_emc": 0.0012}
POWER = {"p0": 4.0, "p1": 5.0, "p3": 3.0, "w": 0.3, "q": 0.4, "r": 0.6}
TRUE = TIME | POWER


def fit(row: PublishedFit, seed: int | None = None) -> AnalyticModel:
    return AnalyticModel.fit([row.knob], row.points(seed), fixed={"w": 1.0})


def truth(setting: Setting) -> tuple[float, float]:
    """Step time and power at a setting by the published forms and their variants, written out with `TRUE`."""
    v, b = TRUE, setting.get(BATCH_KNOB, 1)
    f, cpu, emc = (setting.get(f"{which}_freq_mhz", 0) / 1e3 for which in ("gpu", "cpu", "emc"))
    cores = setting.get("cpu_cores", setting.get("cpu_threads", 0))
    host = v["t0"]
    if f == 0:  # the CPU is what works
        f = (cpu or 1) * (cores or 1)
        cpu = cores = 0
    if cpu:
        host += v["t_cpu"] / cpu
    if (cpu and BATCH_KNOB in setting) or cores:
        host += b * v["c_cpu"] / ((cpu or 1) * (cores or 1))
    busy = b * (v["c1"] / f + (v["c_emc"] / emc if emc else 0))
    if BATCH_KNOB in setting:
        busy += v["t1"] / f + b * v["c0"]
    time = host + busy
    power = v["p0"] + (busy + v["w"] * host) / time * (v["p1"] * f + v["p3"] * f**3)
    if cpu or cores:
        power += v["q"] * (cores or 1) * (cpu or 1) ** 2 * (0.3 + 0.7 * host / time)
    return time, power + v["r"] * emc


@pytest.mark.parametrize(
    "names",
    [
        "gpu_freq_mhz batch_size",
        "gpu_freq_mhz cpu_freq_mhz",
        "gpu_freq_mhz batch_size cpu_freq_mhz",
        "gpu_freq_mhz batch_size cpu_freq_mhz cpu_cores",
        "gpu_freq_mhz batch_size cpu_freq_mhz cpu_cores emc_freq_mhz",
        "cpu_threads batch_size",
        "cpu_freq_mhz cpu_threads batch_size",
    ],
)
def test_every_term_is_given_back_in_its_unit(names: str) -> None:
    knobs = [KNOBS[name] for name in names.split()]
    settings = [
        dict(zip(names.split(), values, strict=True)) for values in itertools.product(*(k.values for k in knobs))
    ]
    model = AnalyticModel.fit(knobs, [Point(s, *truth(s)) for s in settings])
    assert {c.name: c.value for c in model.coefficients} == pytest.approx(
        {c.name: TRUE[c.name] for c in model.coefficients}, rel=2e-3
    )
    units = {c.name: c.unit for c in model.coefficients}
    clock = "GHz" if "gpu" in names else "GHz thread" if "cpu_freq" in names else "thread"
    assert units["c1"] == f"s {clock}" + ("/sample" if BATCH_KNOB in names else "")
    assert units["p3"] == (f"W/({clock})^3" if " " in clock else f"W/{clock}^3")
    if "cpu_cores" in names:
        assert (units["c_cpu"], units["q"]) == ("s GHz core/sample", "W/(GHz^2 core)")


def test_a_power_limit_is_fitted_with_its_own_terms() -> None:
    knobs = (Knob("power_limit_w", (100, 150, 200, 250)), Knob(BATCH_KNOB, (8, 16, 32, 64, 128)))
    values = {"t0": 0.02, "c0": 0.0001, "c1": 0.001, "p0": 40.0, "p1": 180.0, "w": 0.3}
    values |= {"a": 0.97, "mix": 9.0, "knee": 0.7}
    true = AnalyticModel.of_coefficients(knobs, values)
    settings = [{"power_limit_w": p, BATCH_KNOB: b} for p in knobs[0].values for b in knobs[1].values]
    predictions = true.predict_all(settings)
    points = [Point(p.setting, p.step_time_s.value, p.power_w.value) for p in predictions if p.power_w is not None]
    model = AnalyticModel.fit(knobs, points)
    assert model.time_error < 1e-3
    assert (model.power_error or 0) < 1e-3
    assert model["c0"].value + model["c1"].value == pytest.approx(0.0011, rel=0.01)  # apart they hardly matter
    found = {c.name: c.value for c in model.coefficients if c.name not in ("c0", "c1")}
    assert found == pytest.approx({name: values[name] for name in found}, rel=0.05)
    free = true.predict({"power_limit_w": 250, BATCH_KNOB: 8})  # draws far less than its limit
    time = values["t0"] + 8 * (values["c0"] + values["c1"])
    busy = (time - 0.7 * values["t0"]) / time
    assert free.step_time_s.value == pytest.approx(time, rel=1e-3)
    assert free.power_w is not None
    assert free.power_w.value == pytest.approx(40 + 180 * busy, rel=2e-3)
    tight, loose = (true.predict({"power_limit_w": watts, BATCH_KNOB: 128}) for watts in (100, 250))
    assert tight.power_w is not None
    assert tight.power_w.value == pytest.approx(97, rel=0.01)
    assert tight.step_time_s.value > 1.2 * loose.step_time_s.value


class TestOptimum:
    settings = tuple({"gpu_freq_mhz": clock} for clock in PUBLISHED[-1].clocks_mhz)

    def test_what_noise_leaves_open_is_told(self) -> None:
        row = PUBLISHED[-1]
        watts = row.points()[6].power_w  # the cap is what one of the settings draws
        optimum = fit(row, 1).optimum(self.settings, watts)
        assert optimum is not None
        chosen = [optimum.prediction.setting["gpu_freq_mhz"], *(s["gpu_freq_mhz"] for s, _ in optimum.runners_up)]
        assert set(chosen) == {624.75, 726.75}
        shares = [optimum.best_probability, *(share for _, share in optimum.runners_up)]
        assert sum(shares) + optimum.none_probability == pytest.approx(1.0)
        assert all(share > 0.05 for share in shares)
        assert 0.05 < optimum.within_probability < 1
        loose = fit(row, 1).optimum(self.settings, 50.0)
        assert loose is not None
        assert loose.prediction.setting == self.settings[-1]
        assert loose.within_probability > 0.999
        assert (loose.best_probability, loose.runners_up) == (1.0, ())

    def test_none_where_nothing_holds_the_cap(self) -> None:
        assert fit(PUBLISHED[-1], 0).optimum(self.settings, 3.0) is None

    def test_the_least_energy_is_at_a_clock_between(self) -> None:
        optimum = fit(PUBLISHED[0]).optimum(self.settings, goal=GOALS["energy"])
        assert optimum is not None
        energies = [p.energy_per_sample_j for p in fit(PUBLISHED[0]).predict_all(self.settings)]
        assert optimum.prediction.energy_per_sample_j == min(energies, key=lambda e: e.value if e else math.inf)
        assert optimum.prediction.setting not in (self.settings[0], self.settings[-1])
        assert optimum.within_probability == 1

    def test_without_power_there_is_no_cap(self) -> None:
        row = PUBLISHED[0]
        model = AnalyticModel.fit([row.knob], [replace(point, power_w=None) for point in row.points()])
        assert model.power_error is None
        assert [c.name for c in model.coefficients] == ["t0", "c1"]
        prediction = model.predict({"gpu_freq_mhz": 1000})
        assert (prediction.power_w, prediction.energy_per_sample_j) == (None, None)
        assert prediction.throughput.value == pytest.approx(1 / (row.t0 + row.c1), rel=1e-3)
        optimum = model.optimum(self.settings)
        assert optimum is not None
        assert optimum.prediction.setting == self.settings[-1]
        with pytest.raises(InputError, match="a cap needs power"):
            model.optimum(self.settings, 7.0)
        with pytest.raises(InputError, match="the goal energy needs power"):
            model.optimum(self.settings, goal=GOALS["energy"])
        with pytest.raises(InputError, match="one setting or more"):
            model.optimum([])


class TestUncertainty:
    points = tuple(Point({"gpu_freq_mhz": clock}, 0.1 + 0.2 / clock * 1e3, 5 + clock / 200) for clock in CLOCK.values)

    def test_few_points_leave_wide_intervals(self) -> None:
        few = AnalyticModel.fit([CLOCK], self.points[:1])
        many = AnalyticModel.fit([CLOCK], self.points * 5)
        far = {"gpu_freq_mhz": 900}
        widths = [p.step_time_s.high / p.step_time_s.low for p in (few.predict(far), many.predict(far))]
        assert widths[0] > 1.3 > widths[1]

    def test_noise_that_was_given_is_not_scatter(self) -> None:
        noisy = [
            replace(p, step_time_s=p.step_time_s * (1.1 if i % 2 else 0.9), step_time_error=error)
            for error in (0.0, 0.1)
            for i, p in enumerate(self.points * 3)
        ]
        unknown, known = (AnalyticModel.fit([CLOCK], noisy[i : i + 12]) for i in (0, 12))
        spread = [m.predict({"gpu_freq_mhz": 600}).step_time_s for m in (unknown, known)]
        assert spread[0].high / spread[0].low > spread[1].high / spread[1].low

    def test_the_prior_can_be_left_out(self) -> None:
        true = {"t0": 1e-6, "c1": 0.2}  # further from the prior than it believes
        points = [
            Point({"gpu_freq_mhz": f}, true["t0"] + true["c1"] / f * 1e3, step_time_error=0.02) for f in (300, 900)
        ]
        believed, free = (AnalyticModel.fit([CLOCK], points, prior_weight=weight) for weight in (1.0, 0.0))
        assert believed["t0"].value > free["t0"].value
        assert free["c1"].value == pytest.approx(0.2, rel=0.05)

    def test_equal_points_give_equal_answers(self) -> None:
        first, again = (fit(PUBLISHED[0], 5) for _ in range(2))
        settings = [{"gpu_freq_mhz": clock} for clock in PUBLISHED[0].clocks_mhz]
        assert first.coefficients == again.coefficients
        assert first.optimum(settings, 12.0) == again.optimum(settings, 12.0)


class TestRefusals:
    good = Point({"gpu_freq_mhz": 500}, 0.1, 5.0)

    def test_no_point(self) -> None:
        with pytest.raises(InputError, match="one point or more"):
            AnalyticModel.fit([CLOCK], [])

    @pytest.mark.parametrize(
        ("fixed", "words"),
        [
            ({"c9": 1.0}, "no coefficient 'c9'"),
            ({"w": 1.5}, "w is between 0 and 1, not 1.5"),
            ({"t0": -0.1}, "t0 is a number not below 0"),
            ({"p0": math.nan}, "p0 is a number that is finite, not nan"),
            ({"c1": 0.0}, "c1 sets the scale"),
            ({"p1": 0.0, "p3": 0.0}, "sets the scale of the power"),
        ],
    )
    def test_fixed_coefficients(self, fixed: dict[str, float], words: str) -> None:
        with pytest.raises(InputError, match=words):
            AnalyticModel.fit([CLOCK], [self.good], fixed=fixed)

    def test_an_unknown_coefficient(self) -> None:
        model = AnalyticModel.fit([CLOCK], [self.good])
        with pytest.raises(KeyError):
            model["c9"]


@pytest.mark.parametrize(
    "fixed",
    [
        *({"t0": 0.0}, {"t0": 0.15}, {"c1": 0.7}, {"p0": 3.0}, {"p1": 0.0}, {"p3": 0.0}, {"p1": 4.0}, {"p3": 0.5}),
        *({"p1": 4.0, "p3": 0.5}, {"p1": 0.0, "p3": 3.0}, {"p1": 4.0, "p3": 0.0}, {"w": 0.0}, {"t0": 0.1, "c1": 0.7}),
    ],
    ids=str,
)
def test_what_is_fixed_stays(fixed: dict[str, float]) -> None:
    model = AnalyticModel.fit([PUBLISHED[-1].knob], PUBLISHED[-1].points(), fixed=fixed)
    assert {c.name: c.value for c in model.coefficients if c.fixed} == fixed
    free = {c.name: c.value for c in model.coefficients if not c.fixed}
    again = AnalyticModel.of_coefficients([PUBLISHED[-1].knob], {**free, **fixed})
    settings = [point.setting for point in PUBLISHED[-1].points()]
    for one, other in zip(model.log_values(settings), again.log_values(settings), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_knobs_of_other_names_act_by_a_power() -> None:
    knobs = [CLOCK, Knob("workers", (1, 2, 4))]
    points = [
        Point({"gpu_freq_mhz": f, "workers": n}, 0.1 * n**-0.5 * (1 + 500 / f), 5 * n**0.2 * (1 + f / 500))
        for f in CLOCK.values
        for n in knobs[1].values
    ]
    model = AnalyticModel.fit(knobs, points)
    assert model["time:workers"].value == pytest.approx(-0.5, abs=0.01)
    assert model["power:workers"].value == pytest.approx(0.2, abs=0.01)
