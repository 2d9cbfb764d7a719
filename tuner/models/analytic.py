"""The analytic model: the published forms of step time and power, fitted to measured points."""

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
from tuner.goal import GOALS, Goal
from tuner.models.analytic_fit import Fit, Point, fit_form, profile_points
from tuner.models.analytic_input import check_list, check_settings, check_size
from tuner.models.analytic_results import (
    FittedCoefficient,
    Interval,
    Optimum,
    Prediction,
    fitted_coefficients,
    prediction,
)
from tuner.models.forms import Array
from tuner.models.physical import PhysicalForm

__all__ = ["AnalyticModel", "FittedCoefficient", "Interval", "Optimum", "Point", "Prediction", "profile_points"]

_SAMPLES = 200
_TIME, _POWER = 0, 1


@dataclass(frozen=True, eq=False)
class AnalyticModel:
    """Step time and power as functions of the knobs; made by `fit`, `of_profile` or `of_coefficients`.

        T(b, f) = t0 + t1/f + b (c0 + c1/f)           seconds of a step of b samples
        P(b, f) = p0 + u (p1 f + p3 f^3)              watts
        b / T samples a second; P T / b joules a sample

    f is `gpu_freq_mhz` in GHz, b is `batch_size`. t0 [s] is what the host does at any clock, t1 [s GHz] kernels that
    wait, c0 [s/sample] memory, c1 [s GHz/sample] compute; p0 [W] is drawn at any clock, p1 [W/GHz] and p3 [W/GHz^3] by
    work. u = (accel + w (T - accel)) / T is the utilization: accel is T without t0, and w (0 to 1) the share of the
    rest in which the accelerator is busy all the same; w = 1 is the published power. Without the knob `batch_size`, b
    is 1, and c1 stands for t1 too. Power limits, threads, CPU and memory clocks: see `tuner.models.forms`.

    The published fit of ResNet50 on a TX2, and which clock a cap of 7 W leaves:

    >>> clocks = Knob("gpu_freq_mhz", (420.75, 522.75, 624.75, 726.75, 1300.5))
    >>> published = {"t0": 0.1738, "c1": 0.7269, "p0": 3.83, "p1": 4.23, "p3": 0.87, "w": 1.0}
    >>> tx2 = AnalyticModel.of_coefficients([clocks], published)
    >>> settings = [{"gpu_freq_mhz": clock} for clock in clocks.values]
    >>> tx2.optimum(settings, cap_w=7.0).prediction.setting
    {'gpu_freq_mhz': 624.75}

    Fitted to three bursts (seconds of a step, watts), asked at a clock that was not measured:

    >>> bursts = [(420.75, 1.901, 5.67), (624.75, 1.337, 6.69), (1300.5, 0.733, 11.25)]
    >>> points = [Point({"gpu_freq_mhz": clock}, step_s, watts) for clock, step_s, watts in bursts]
    >>> model = AnalyticModel.fit([clocks], points, fixed={"w": 1.0})
    >>> at = model.predict({"gpu_freq_mhz": 900})
    >>> print(f"{at.step_time_s.value:.2f} s, {at.power_w.value:.1f} W; c1 {model['c1'].value:.2f} {model['c1'].unit}")
    0.98 s, 8.1 W; c1 0.73 s GHz

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
        points = check_list(points, Point, "the points of a fit")
        form = PhysicalForm(knobs, plain=plain, held=fixed)
        found = fit_form(form, points, prior_weight)
        return cls(
            tuple(form.knobs.values()),
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
        statistic: Statistic | None = "mean",
        fixed: Mapping[str, float] | None = None,
        plain: bool = True,
        prior_weight: float = 1.0,
    ) -> Self:
        """Fit the form to the recorded settings of a profile, their replicates averaged; see `fit`.

        A step is b units of the profile's throughput (samples, epochs), or one unit where it records no batch size. A
        profile without any power makes a model without, and so does the statistic None.

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
        values = form.held
        powered = any(physical.of_power and physical.name in values for physical in form.physical)
        needed = [physical.name for physical in form.physical if powered or not physical.of_power]
        if missing := [name for name in needed if name not in values]:
            raise InputError(f"the model needs a value for {', '.join(missing)}")
        theta = form.mean[form.free]
        nothing = np.zeros((len(theta), len(theta)))
        known = Fit(theta, nothing, 0.0, np.zeros(2), (0.0, 0.0), powered)
        coefficients = tuple(fitted_coefficients(form, known))
        return cls(tuple(form.knobs.values()), coefficients, 0.0, 0.0 if powered else None, plain, 0, form, known)

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
        """Natural logarithms of step time in seconds and power in watts, shape (n,) each.

        Raises:
            InputError: as `predict_all`.
        """
        settings = check_settings(self._form, settings)
        return self._form.log_values(self._fit.theta, self._form.columns(settings))

    def predict(self, setting: Setting) -> Prediction:
        """What the model says of one setting, its knobs at any values.

        Raises:
            InputError: as `predict_all`.
        """
        return self.predict_all([setting])[0]

    def predict_all(self, settings: Sequence[Setting]) -> list[Prediction]:
        """What the model says of each setting.

        Raises:
            InputError: a setting that does not name every knob and no other, or a value that is not positive.
        """
        settings = check_settings(self._form, settings)
        if not settings:
            return []
        mean, covariance = self._moments(settings)
        return [prediction(self._fit, s, self._samples(s), mean[:, i], covariance[i]) for i, s in enumerate(settings)]

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
        settings = check_list(settings, object, "settings")
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
            prediction(self._fit, settings[best], self._samples(settings[best]), mean[:, 0], covariance[0]),
            within,
            float(shares[best]),
            tuple((dict(settings[i]), float(shares[i])) for i in others),
            float(1 - any_held.mean()),
        )

    def _merit(self, theta: Array, settings: Sequence[Setting], cap_w: float | None, goal: Goal) -> Array:
        """Logarithm of the goal, larger is better, minus infinity above the cap; shape (..., n), theta (..., f)."""
        if not isinstance(goal, Goal):
            raise InputError(f"{goal!r} is no goal", hint="GOALS of tuner.goal has them by name")
        settings = check_settings(self._form, settings)
        if not settings:
            raise InputError("an optimum needs one setting or more to choose from")
        if cap_w is not None:
            check_size(cap_w, "a cap in watts")
        if not self.powered and (cap_w is not None or goal.needs_power):
            what = f"the goal {goal.name}" if cap_w is None else "a cap"
            raise InputError(f"{what} needs power, and no point has any", hint="measure with a power meter")
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
