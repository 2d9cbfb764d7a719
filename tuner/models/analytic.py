"""The analytic model: the published forms of step time and power, fitted to measured points.

    T(b, f) = t0 + t1/f + b (c0 + c1/f)           P(b, f) = p0 + u(b, f) (p1 f + p3 f^3)

f is the clock in GHz, b the batch size, and u = (accel + w (T - accel)) / T the utilization: accel is the part of T in
which the accelerator works (all but t0), and w the share of the rest in which it is busy all the same; w = 1 is the
published power without utilization. Power limits, threads, CPU and memory clocks: see `tuner.models.forms`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.stats import norm

from devices.device import BATCH_KNOB, Knob, Setting
from devices.errors import InputError
from devices.measurement import Statistic
from devices.profile import Profile
from tuner.checks import check_number
from tuner.goal import GOALS, Goal
from tuner.models.analytic_fit import Fit, Point, check_setting, fit_form, profile_points
from tuner.models.analytic_results import FittedCoefficient, Interval, Optimum, Prediction, fitted_coefficients
from tuner.models.forms import Array
from tuner.models.physical import PhysicalForm

__all__ = ["AnalyticModel", "FittedCoefficient", "Interval", "Optimum", "Point", "Prediction", "profile_points"]

_SAMPLES = 200
_TIME, _POWER = 0, 1


@dataclass(frozen=True, eq=False)
class AnalyticModel:
    """Step time and power as functions of the knobs; made by `fit`, `of_profile` or `of_coefficients`.

    Attributes:
        knobs: Of the space.
        coefficients: In physical units, those of step time first; those of power only where power was fitted.
        time_error: Mean relative error of step time at the points.
        power_error: The same of power; None where no power was fitted.
        plain: Whether it has the published terms only.
        points: How many points it was fitted to; 0 where the coefficients were given.
    """

    knobs: tuple[Knob, ...]
    coefficients: tuple[FittedCoefficient, ...]
    time_error: float
    power_error: float | None
    plain: bool
    points: int
    _form: PhysicalForm
    _fit: Fit

    @classmethod
    def fit(
        cls,
        knobs: Sequence[Knob],
        points: Sequence[Point],
        *,
        fixed: Mapping[str, float] | None = None,
        plain: bool = True,
        prior_weight: float = 1.0,
    ) -> Self:
        """Fit the form to points: most probable coefficients, in relative error, none below 0.

        Args:
            knobs: Of the space; which of them there are decides the form.
            points: What was measured.
            fixed: Coefficients to be held, by name, in physical units.
            plain: False adds what the published forms do not have: host and accelerator working side by side (`rho`),
                powers of the batch size (`delta`, `hump`), loading (`c_cpu`).
            prior_weight: Of what is believed of boards in general (see `Form`): 1 as it stands, below 1 weaker, 0 none.

        Raises:
            InputError: no point, a value that is no positive number, a setting that does not name every knob, an
                unknown coefficient in `fixed` or a value it cannot have, a negative weight.
        """
        form = PhysicalForm(knobs, plain=plain, held=fixed)
        found = fit_form(form, points, prior_weight)
        return cls(
            tuple(knobs),
            tuple(fitted_coefficients(form, found)),
            found.error[_TIME],
            found.error[_POWER] if found.powered else None,
            plain,
            len(points),
            form,
            found,
        )

    @classmethod
    def of_profile(
        cls,
        profile: Profile,
        *,
        statistic: Statistic = "mean",
        fixed: Mapping[str, float] | None = None,
        plain: bool = True,
        prior_weight: float = 1.0,
    ) -> Self:
        """Fit the form to the recorded settings of a profile, their replicates averaged; see `fit`.

        A step is b units of the profile's throughput (samples, epochs), or one unit where it records no batch size. A
        profile without any power makes a model without.

        Raises:
            InputError: as `fit`, and as `profile_points`.
        """
        points = profile_points(profile, statistic)
        return cls.fit(profile.knobs, points, fixed=fixed, plain=plain, prior_weight=prior_weight)

    @classmethod
    def of_coefficients(cls, knobs: Sequence[Knob], values: Mapping[str, float], *, plain: bool = True) -> Self:
        """The model with known coefficients, without any uncertainty: a published fit.

        Args:
            knobs: Of the space.
            values: Every coefficient by name, in physical units; those of power may all be left out.
            plain: As of `fit`.

        Raises:
            InputError: a coefficient that is missing, unknown, or has a value it cannot have.
        """
        form = PhysicalForm(knobs, plain=plain, held=values)
        powered = any(physical.of_power and physical.name in values for physical in form.physical)
        needed = [physical.name for physical in form.physical if powered or not physical.of_power]
        if missing := [name for name in needed if name not in values]:
            raise InputError(f"the model needs a value for {', '.join(missing)}")
        theta = form.mean[form.free]
        nothing = np.zeros((len(theta), len(theta)))
        known = Fit(theta, nothing, 0.0, np.zeros(2), (0.0, 0.0), powered)
        coefficients = tuple(fitted_coefficients(form, known))
        return cls(tuple(knobs), coefficients, 0.0, 0.0 if powered else None, plain, 0, form, known)

    def __getitem__(self, name: str) -> FittedCoefficient:
        """The coefficient of that name.

        Raises:
            KeyError: there is none.
        """
        found = next((c for c in self.coefficients if c.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    @property
    def powered(self) -> bool:
        """Whether power was fitted."""
        return self._fit.powered

    @property
    def scatter(self) -> tuple[float, float | None]:
        """Relative standard deviations of the points around the form, of step time and power, beyond the errors given
        with them: what the form cannot say, and noise nobody told of. None without power."""
        time, power = self._fit.scatter.tolist()
        return time, power if self.powered else None

    def log_values(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Natural logarithms of step time in seconds and power in watts, shape (n,) each."""
        return self._form.log_values(self._fit.theta, self._form.columns(settings))

    def predict(self, setting: Setting) -> Prediction:
        """What the model says of one setting, its knobs at any values."""
        return self.predict_all([setting])[0]

    def predict_all(self, settings: Sequence[Setting]) -> list[Prediction]:
        """What the model says of each setting.

        Raises:
            InputError: a setting that does not name every knob, or a value that is not positive.
        """
        for setting in settings:
            check_setting(self._form, setting, "setting")
        mean, covariance = self._moments(settings)
        return [self._prediction(s, mean[:, i], covariance[i]) for i, s in enumerate(settings)]

    def merit(self, settings: Sequence[Setting], cap_w: float | None = None, goal: Goal = GOALS["throughput"]) -> Array:
        """Logarithm of the goal as predicted, larger is better, minus infinity above the cap; shape (n,).

        Raises:
            InputError: as `optimum`.
        """
        return self._merit(self._fit.theta, settings, cap_w, goal)

    def optimum(
        self, settings: Sequence[Setting], cap_w: float | None = None, goal: Goal = GOALS["throughput"]
    ) -> Optimum | None:
        """The best setting predicted to hold the cap, and how sure that is; None where none is predicted to hold it.

        Args:
            settings: Candidates.
            cap_w: Watts that the predicted power must not exceed, or None.
            goal: What is optimized.

        Raises:
            InputError: a cap that is not positive; a cap or goal that needs power, which was not fitted; no candidates;
                a faulty one.
        """
        merit = self._merit(np.stack([self._fit.theta, *self._fit.samples(_SAMPLES)]), settings, cap_w, goal)
        best, sampled = int(merit[0].argmax()), merit[1:]
        if merit[0, best] == -math.inf:
            return None
        any_held = sampled.max(1) > -math.inf
        shares = np.bincount(sampled.argmax(1)[any_held], minlength=len(settings)) / _SAMPLES
        others = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0 and i != best]
        mean, covariance = self._moments([settings[best]])
        within = 1.0
        if cap_w is not None:
            within = float(norm.cdf((math.log(cap_w) - mean[_POWER, 0]) / math.sqrt(covariance[0, 1, 1])))
        return Optimum(
            self._prediction(settings[best], mean[:, 0], covariance[0]),
            within,
            float(shares[best]),
            tuple((dict(settings[i]), float(shares[i])) for i in others),
            float(1 - any_held.mean()),
        )

    def _merit(self, theta: Array, settings: Sequence[Setting], cap_w: float | None, goal: Goal) -> Array:
        """Logarithm of the goal, larger is better, minus infinity above the cap; shape (..., n), theta (..., f)."""
        if not isinstance(goal, Goal):
            raise InputError(f"{goal!r} is no goal", hint="GOALS of tuner.goal has them by name")
        if not settings:
            raise InputError("an optimum needs one setting or more to choose from")
        if cap_w is not None:
            check_number(cap_w, "a cap in watts")
        if not self.powered and (cap_w is not None or goal.needs_power):
            what = f"the goal {goal.name}" if cap_w is None else "a cap"
            raise InputError(f"{what} needs power, and no point has any", hint="measure with a power meter")
        for setting in settings:
            check_setting(self._form, setting, "setting")
        log_time, log_power = self._form.log_values(theta, self._form.columns(settings))
        merit = np.log([self._samples(s) for s in settings]) - log_time
        if goal.needs_power:
            merit = merit - log_power
        return merit if cap_w is None else np.where(log_power <= math.log(cap_w), merit, -np.inf)

    def _samples(self, setting: Setting) -> float:
        return float(setting[BATCH_KNOB]) if self._form.batch else 1.0

    def _moments(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Means of the logarithms, shape (2, n), and their covariances, (n, 2, 2)."""
        columns = self._form.columns(settings)
        mean, slope = self._fit.linearize(lambda theta: np.stack(self._form.log_values(theta, columns), axis=-2))
        covariance = np.einsum("kin,kl,ljn->nij", slope, self._fit.covariance, slope)
        return mean, np.asarray(covariance + np.diag(np.maximum(self._fit.scatter, 1e-9) ** 2))

    def _prediction(self, setting: Setting, mean: Array, covariance: Array) -> Prediction:
        samples = self._samples(setting)
        time, power = float(mean[_TIME]), float(mean[_POWER])
        return Prediction(
            dict(setting),
            self._interval(time, covariance[0, 0]),
            self._interval(math.log(samples) - time, covariance[0, 0]),
            self._interval(power, covariance[1, 1]) if self.powered else None,
            self._interval(time + power - math.log(samples), covariance.sum()) if self.powered else None,
        )

    def _interval(self, log_mean: float, log_variance: float) -> Interval:
        spread = self._fit.sigmas * math.sqrt(log_variance)
        return Interval(math.exp(log_mean), math.exp(log_mean - spread), math.exp(log_mean + spread))
