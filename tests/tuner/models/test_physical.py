"""Every coefficient of the form has its name and unit, and exactly one place in the form's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from devices.device import BATCH_KNOB, Knob
from tuner.models.forms import Form
from tuner.models.physical import PhysicalForm

KNOBS = (
    Knob("gpu_freq_mhz", (300, 900)),
    Knob(BATCH_KNOB, (4, 64)),
    Knob("cpu_freq_mhz", (800, 1600)),
    Knob("cpu_cores", (2, 6)),
    Knob("emc_freq_mhz", (800, 3200)),
    Knob("power_limit_w", (100, 250)),
    Knob("workers", (1, 4)),
)
CHOICES = [knobs for n in range(1, len(KNOBS) + 1) for knobs in itertools.combinations(KNOBS, n)]


@pytest.mark.parametrize("plain", [True, False])
def test_nothing_of_the_form_is_without_a_name(plain: bool) -> None:
    for knobs in CHOICES:
        form = PhysicalForm(knobs, plain=plain)
        named = {physical.inside for physical in form.physical} | ({"p3"} if form.gpu else set())
        left_out = set(form.index) - {form.coefficients[i].name for i in form.free}
        assert named | left_out == set(form.index)
        assert left_out <= {"t1", "c_cpu"}
        assert len({physical.name for physical in form.physical}) == len(form.physical) == len(form.free)


@pytest.mark.parametrize("plain", [True, False])
def test_holding_every_coefficient_where_it_is_changes_nothing(plain: bool) -> None:
    for knobs in CHOICES:
        form = PhysicalForm(knobs, plain=plain)
        theta = form.mean[form.free] + 0.1
        full = form.complete(theta)
        values = {p.name: p.value(float(p.scaled(full, form.index))) for p in form.physical}
        held = PhysicalForm(knobs, plain=plain, held=values)
        assert len(held.free) == 0
        setting = {knob.name: sum(knob.values) / 2 for knob in knobs}
        columns = form.columns([setting])
        for mine, other in zip(form.log_values(theta, columns), held.log_values(np.zeros(0), columns), strict=True):
            assert mine == pytest.approx(other, abs=1e-9)


def test_left_out_terms_are_none_of_the_form() -> None:
    form, whole = PhysicalForm(KNOBS[:1], plain=True), Form(KNOBS[:1], plain=True)
    theta = whole.mean.copy()
    theta[whole.index["t1"]] = -99.0
    columns = form.columns([{"gpu_freq_mhz": 500}])
    for mine, other in zip(form.log_values(theta[form.free], columns), whole.log_values(theta, columns), strict=True):
        assert mine == pytest.approx(other)
