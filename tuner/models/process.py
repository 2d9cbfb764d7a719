"""The analytic form with a Gaussian process on top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devices.device import Knob, Setting
from tuner.models.coefficients import Belief, Readings, draw, offsets, weigh
from tuner.models.forms import Array, Form
from tuner.models.residual import correlation, nearness

SAMPLES = 48
ROUGHNESS = np.array([0.014, 0.01])
"""Of step time and power: what one setting has to itself (kernels chosen for one shape, a cell measured on a bad day).
Cells of recorded tables that should be alike differ by 1 to 2 % in time and 0.5 to 1 % in power."""


class AnalyticProcess:
    """Logarithms of step time and power: form + residual, an ensemble of `SAMPLES` samples of the form's coefficients.

    The residual is a Matern 5/2 process of unknown size, plus the roughness of single settings and their like. Given a
    sample of the coefficients all is Gaussian, in closed form; the samples carry what is not (a limit that may or may
    not bind).

    Args:
        knobs: Of the space.
        form: The form.
        settings: Those that readings belong to.
        output: 0 for step time, 1 for power, for each of m readings.
        row: Index into `settings`, for each reading.
        value: Natural logarithms, shape (m,).
        variance: Of the noise, shape (m,).
        beliefs: Priors of the coefficients.
        seed: Of the samples.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        form: Form,
        settings: Sequence[Setting],
        output: Sequence[int],
        row: Sequence[int],
        value: Sequence[float],
        variance: Sequence[float],
        beliefs: Sequence[Belief],
        seed: int,
    ) -> None:
        self._knobs, self.form = tuple(knobs), form
        self._known = tuple(settings)
        self._readings = Readings(
            form.columns(settings),
            row=np.array(row, int),
            output=np.array(output, int),
            value=np.array(value),
            variance=np.array(variance),
            settings=self._known,
        )
        alike, near = correlation(knobs, settings, settings), nearness(knobs, settings, settings)
        hypotheses = weigh(form, self._readings, alike, near, ROUGHNESS, beliefs)
        self._beliefs = tuple(beliefs)
        self.theta, of = draw(form, self._readings, hypotheses, beliefs, SAMPLES, seed)
        self._used, self._of = np.unique(of, return_inverse=True)
        self._size = hypotheses.size[self._used]
        self._precision = np.linalg.inv(hypotheses.covariance[self._used])
        self._belief = hypotheses.belief[of]
        value = self._readings.value - offsets(self._readings, beliefs)[self._belief]
        left = value - self._readings.predict(form, self.theta)
        self._weights = (self._precision[self._of] @ left[..., None])[..., 0]

    def predict(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Means and standard deviations of the logarithms, shape (SAMPLES, 2, n) each."""
        columns = self.form.columns(settings)
        mean = np.stack(self.form.log_values(self.theta, columns), axis=1)
        for i, belief in enumerate(self._beliefs):
            if belief.offset is not None:
                mean[self._belief == i] += belief.offset(settings)
        sd = np.empty_like(mean)
        alike = correlation(self._knobs, settings, self._known)
        near = nearness(self._knobs, settings, self._known)
        row, output = self._readings.row, self._readings.output
        for h, size in enumerate(self._size):
            samples = self._of == h
            for j in (0, 1):
                cross = (alike * size[j] ** 2 + near * ROUGHNESS[j] ** 2)[:, row] * (output == j)
                mean[samples, j] += self._weights[samples] @ cross.T
                explained = np.einsum("ni,ij,nj->n", cross, self._precision[h], cross)
                sd[samples, j] = np.sqrt(np.maximum(size[j] ** 2 + ROUGHNESS[j] ** 2 - explained, 1e-8))
        return mean, sd
