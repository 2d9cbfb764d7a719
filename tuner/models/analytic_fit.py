"""Fitting a form to points: most probable coefficients, how sure they are, and how the points scatter around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from devices.device import BATCH_KNOB, Setting
from devices.errors import InputError
from devices.measurement import STATISTICS, Statistic, seconds_per_unit
from devices.profile import Profile
from tuner.models.analytic_input import check_list, check_point, check_profile, check_size
from tuner.models.coefficients import Readings, optimize, starts
from tuner.models.forms import Array
from tuner.models.physical import PhysicalForm

_MOST_POINTS = 300  # memory goes with the square
_STEP = 1e-4  # of finite differences, in the logarithm
_ITERATIONS = 60
_ROUNDS = 5  # of coefficients and scatter, each given the other
_SCATTER = 0.03  # of points around the form, before they tell
_ENOUGH = 4  # degrees of freedom from which on the points alone tell the scatter
_LEAST_SCATTER = 1e-4
_VAGUE = 30.0  # standard deviation without a prior, in the logarithm


@dataclass(frozen=True)
class Point:
    """What was measured at one setting.

    Attributes:
        setting: One value for each knob.
        step_time_s: Seconds of a step (one batch).
        power_w: Watts, or None.
        step_time_error: Relative standard error of the burst's step time. The scatter of the points around the form is
            found from them in any case; what is given here is known to be noise of the burst.
        power_error: The same of the power.
    """

    setting: Setting
    step_time_s: float
    power_w: float | None = None
    step_time_error: float = 0.0
    power_error: float = 0.0


def profile_points(profile: Profile, statistic: Statistic | None = "mean") -> list[Point]:
    """The settings of a profile with a valid row, their replicates averaged; power None where it was not recorded.

    A step is b units of the profile's throughput (samples, epochs), or one unit where it records no batch size.

    Args:
        profile: What was recorded.
        statistic: Of power; None leaves power out.

    Raises:
        InputError: no such statistic, a profile that records power but not this statistic of it, a figure that cannot
            be, or a unit of throughput that is not per second, minute or hour.
    """
    if statistic not in (None, *STATISTICS):
        raise InputError(f"{statistic!r} is no statistic of power", hint=f"one of {', '.join(STATISTICS)}")
    check_profile(profile)
    recorded = [s for s in STATISTICS if any(row.power(s) is not None for row in profile.ok_rows)]
    if recorded and statistic not in (None, *recorded):
        raise InputError(
            f"the profile records no {statistic} of power, only {', '.join(recorded)}",
            hint=f'statistic="{recorded[0]}", or None for a model without power',
        )
    try:
        unit_s = seconds_per_unit(1.0, profile.throughput_unit)
    except ValueError as error:
        raise InputError(str(error)) from error
    return [
        Point(
            cell.setting,
            check_size(cell.setting.get(BATCH_KNOB, 1), "the batch_size of a row") * unit_s / cell.throughput,
            None if statistic is None else cell.power_w,
        )
        for cell in profile.cells(statistic or "mean")
    ]


@dataclass(frozen=True)
class Fit:
    """Where the fit ended.

    Attributes:
        theta: The form's free coefficients, shape (f,).
        covariance: Around them (Laplace's method), shape (f, f).
        sigmas: Half-width of a 90 % interval in standard deviations: Student's for the freedom the points leave.
        scatter: Of the points around the form beyond the errors given, relative, for time and power; shape (2,).
        error: Mean relative errors at the points, of step time and power.
        powered: Whether any point had power.
    """

    theta: Array
    covariance: Array
    sigmas: float
    scatter: Array
    error: tuple[float, float]
    powered: bool

    def linearize(self, function: Callable[[Array], Array]) -> tuple[Array, Array]:
        """A function's value at `theta`, shape (...), and its slopes, (f, ...); it takes coefficients (s, f)."""
        values = function(
            self.theta + np.concatenate([np.zeros((1, len(self.theta))), _STEP * np.eye(len(self.theta))])
        )
        return values[0], (values[1:] - values[0]) / _STEP

    def samples(self, count: int) -> Array:
        """Samples of the coefficients, shape (count, f); the same at every call."""
        variances, axes = np.linalg.eigh(self.covariance)
        draws = np.random.default_rng(0).standard_normal((count, len(self.theta)))
        return np.asarray(self.theta + draws * np.sqrt(np.maximum(variances, 0.0)) @ axes.T)


def fit_form(form: PhysicalForm, points: Sequence[Point], prior_weight: float) -> Fit:
    """Fit `form` by least squares in the logarithm, with its priors; the points' scatter is found in turn.

    Raises:
        InputError: as `AnalyticModel.fit`.
    """
    check_size(prior_weight, "the weight of the prior", "of 0 or more")
    points = check_list(points, Point, "the points of a fit")
    if not points:
        raise InputError("an analytic model needs one point or more")
    for point in points:
        check_point(form, point)
    all_points, points = points, points[:: math.ceil(len(points) / _MOST_POINTS) or 1]
    readings = _readings(form, points)
    given, output = readings.variance, readings.output
    mean = form.mean[form.free]
    sd = (
        np.minimum(form.sd[form.free] / math.sqrt(prior_weight), _VAGUE) if prior_weight else np.full_like(mean, _VAGUE)
    )
    begin = starts(form.whole, readings, form.whole.mean)[:, form.free]
    scatter, freedom = np.array([_SCATTER, _SCATTER]), 0.0
    theta, covariance = begin[0], np.diag(sd**2)
    for _ in range(_ROUNDS):
        precision = 1 / (given + scatter[output] ** 2)
        matrix = np.broadcast_to(np.diag(precision), (len(begin), len(precision), len(precision)))
        shape = (len(begin), 1)
        found, loss, curvature = optimize(
            form,
            readings,
            np.tile(readings.value, shape),
            matrix,
            np.tile(mean, shape),
            np.tile(np.diag(1 / sd**2), (len(begin), 1, 1)),
            begin,
            _ITERATIONS,
        )
        best = int(loss.argmin())
        theta, covariance = found[best], np.linalg.inv(curvature[best])
        begin = theta[None]
        before, (scatter, freedom) = scatter, _scatter(form, readings, theta, covariance, precision)
        if np.abs(np.log(scatter / before)).max() < 0.01:
            break
    whole = _readings(form, all_points)
    left = np.abs(np.expm1(whole.predict(form, theta) - whole.value))
    powered = bool((whole.output == 1).any())
    error = tuple(float(left[whole.output == j].mean()) if (whole.output == j).any() else 0.0 for j in (0, 1))
    sigmas = float(student_t.ppf(0.95, max(freedom, _ENOUGH)))
    return Fit(theta, (covariance + covariance.T) / 2, sigmas, scatter, (error[0], error[1]), powered)


def _readings(form: PhysicalForm, points: Sequence[Point]) -> Readings:
    with_power = [(i, point.power_w, point.power_error) for i, point in enumerate(points) if point.power_w is not None]
    return Readings(
        form.columns([point.setting for point in points]),
        np.array([*range(len(points)), *(i for i, _, _ in with_power)]),
        np.array([0] * len(points) + [1] * len(with_power)),
        np.log([*(point.step_time_s for point in points), *(watts for _, watts, _ in with_power)]),
        np.array([*(point.step_time_error for point in points), *(error for _, _, error in with_power)]) ** 2,
    )


def _scatter(
    form: PhysicalForm, readings: Readings, theta: Array, covariance: Array, precision: Array
) -> tuple[Array, float]:
    """Standard deviations of the points around the form beyond their errors, of time and power, shape (2,), and the
    degrees of freedom of the output that has fewer.

    From the sum of squares over the degrees of freedom that coefficients with priors leave; where those are few, the
    usual scatter stands in for what is missing.
    """
    moved = theta + np.concatenate([np.zeros((1, len(theta))), _STEP * np.eye(len(theta))])
    predicted = readings.predict(form, moved)
    slope = (predicted[1:] - predicted[0]) / _STEP
    leverage = np.einsum("ki,kl,li->i", slope, covariance, slope) * precision
    squares = (readings.value - predicted[0]) ** 2
    found, freedoms = [], []
    for output in (0, 1):
        mine = readings.output == output
        if not mine.any():
            found.append(_SCATTER)
            continue
        freedom = float((1 - leverage[mine]).sum())
        freedoms.append(freedom)
        missing = max(_ENOUGH - freedom, 0.0)
        variance = (float(squares[mine].sum()) + missing * _SCATTER**2) / max(freedom, _ENOUGH)
        found.append(math.sqrt(max(variance - float(readings.variance[mine].mean()), _LEAST_SCATTER**2)))
    return np.array(found), min(freedoms)
