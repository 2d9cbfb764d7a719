"""What an analytic model answers: coefficients, predictions and the optimum, with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from devices.device import Setting
from tuner.models.analytic_fit import Fit
from tuner.models.forms import Array
from tuner.models.physical import PhysicalForm


@dataclass(frozen=True)
class Interval:
    """A value with the bounds of its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FittedCoefficient:
    """A coefficient in physical units.

    Attributes:
        name: As in the formulas (`t0`, `c1`, `p3`).
        value: The fitted value.
        low: Lower bound of its 90 % interval.
        high: Upper bound.
        unit: `s`, `s GHz/sample`, `W/GHz^3`, ...; empty for shares and exponents.
        fixed: Whether the value was given.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    fixed: bool = False


@dataclass(frozen=True)
class Prediction:
    """What the model says of a setting.

    The intervals hold 90 % for what long measurements at the setting would show: they cover the coefficients and the
    scatter of the points around the form, burst noise that was given left out.

    Attributes:
        setting: The setting.
        step_time_s: Seconds of a step.
        throughput: Samples a second; steps a second where the batch size is no knob.
        power_w: Watts; None where no power was fitted.
        energy_per_sample_j: Joules per sample (or step), likewise.
    """

    setting: Setting
    step_time_s: Interval
    throughput: Interval
    power_w: Interval | None
    energy_per_sample_j: Interval | None


@dataclass(frozen=True)
class Optimum:
    """The best predicted setting.

    Attributes:
        prediction: Of the setting.
        within_probability: P(power <= cap), scatter around the form included; 1 without a cap.
        best_probability: P(it is the best one that holds the cap), over samples of the coefficients.
        runners_up: The other settings that may be, with their probabilities, likeliest first.
        none_probability: P(no setting holds the cap).
    """

    prediction: Prediction
    within_probability: float
    best_probability: float
    runners_up: tuple[tuple[Setting, float], ...]
    none_probability: float


def prediction(fit: Fit, setting: Setting, samples: float, mean: Array, covariance: Array) -> Prediction:
    """What a fit says of a setting with steps of `samples`: means (2,) of the logarithms of step time and power, and
    their covariance (2, 2)."""

    def interval(log_mean: float, log_variance: float) -> Interval:
        spread = fit.sigmas * math.sqrt(log_variance)
        return Interval(math.exp(log_mean), math.exp(log_mean - spread), math.exp(log_mean + spread))

    time, power = mean.tolist()
    return Prediction(
        dict(setting),
        interval(time, covariance[0, 0]),
        interval(math.log(samples) - time, covariance[0, 0]),
        interval(power, covariance[1, 1]) if fit.powered else None,
        interval(time + power - math.log(samples), covariance.sum()) if fit.powered else None,
    )


def fitted_coefficients(form: PhysicalForm, fit: Fit) -> list[FittedCoefficient]:
    """The coefficients of a fit in physical units: those of step time, and those of power where it was fitted."""
    told = [physical for physical in form.physical if fit.powered or not physical.of_power]
    mean, slope = fit.linearize(
        lambda theta: np.stack([p.scaled(form.complete(theta), form.index) for p in told], axis=-1)
    )
    sd = np.sqrt(np.einsum("kp,kl,lp->p", slope, fit.covariance, slope))
    found = []
    for physical, centre, spread in zip(told, mean.tolist(), (fit.sigmas * sd).tolist(), strict=True):
        value, low, high = (physical.value(centre + away) for away in (0.0, -spread, spread))
        if physical.name in form.held:
            value = low = high = form.held[physical.name]
        found.append(FittedCoefficient(physical.name, value, low, high, physical.unit, physical.name in form.held))
    return found
