"""Coefficients of a form from readings: the most probable ones, and samples that say how sure they are.

The model of a reading is: form + residual + noise, in the logarithm. The residual, what the form cannot say, is a
Gaussian process of unknown size; each size is tried and weighted by its evidence (Laplace's method). Samples are drawn
by randomizing readings and prior and optimizing again (randomize-then-optimize, Bardsley et al. 2014), which follows
the form's curvature where a Gaussian around the optimum would promise the impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from devices.device import Setting
from tuner.models.forms import Array, Form

_STEP = 1e-4  # of the finite differences, in the logarithm
_LONGEST_MOVE = 2.0  # of a coefficient in one iteration: a factor of 7
_TRIES = 4
_ITERATIONS, _SAMPLE_ITERATIONS = 10, 4
SIZES = np.array([[0.03, 0.06, 0.12], [0.03, 0.06, 0.12]])
"""Sizes of the residual that are tried, for step time and for power: relative standard deviations."""
CPU_FACTOR = 2.0  # where a CPU trains, its caches make step time jump
_SIZE_WEIGHT = np.array([0.25, 0.5, 0.25])


@dataclass(frozen=True)
class Readings:
    """Logarithms of what bursts read: m values at n settings.

    Attributes:
        columns: The settings, as `Form.columns` gives them: arrays of shape (n,).
        row: Which setting a reading belongs to, shape (m,).
        output: 0 for step time, 1 for power; shape (m,).
        value: Natural logarithms, shape (m,).
        variance: Of the bursts' noise, shape (m,).
        settings: The settings themselves, for priors that add to the form.
    """

    columns: Mapping[str, Array]
    row: np.ndarray
    output: np.ndarray
    value: Array
    variance: Array
    settings: Sequence[Setting] = ()

    def predict(self, form: Form, theta: Array) -> Array:
        """What the form says of the readings: shape (..., m) for coefficients of shape (..., k)."""
        outputs = np.stack(form.log_values(theta, self.columns), axis=-2)
        return np.asarray(outputs[..., self.output, self.row])


def optimize(
    form: Form,
    readings: Readings,
    value: Array,
    precision: Array,
    mean: Array,
    weight: Array,
    start: Array,
    iterations: int,
) -> tuple[Array, Array, Array]:
    """Most probable coefficients by damped Gauss-Newton steps, many problems at a time.

    Args:
        form: The form of k coefficients.
        readings: Where the m readings were made.
        value: What they read, shape (s, m), one row for each problem.
        precision: Inverse covariance of residual and noise, shape (s, m, m).
        mean: Prior means, shape (s, k).
        weight: Inverse of the prior covariances, shape (s, k, k).
        start: Where to begin, shape (s, k).
        iterations: The most steps to take.

    Returns:
        Coefficients (s, k), minus the logarithm of the joint density up to a constant (s,), and the inverse covariance
        of the coefficients (s, k, k).
    """
    theta = start.copy()
    eye = np.eye(theta.shape[1])

    def objective(theta: Array) -> Array:
        left = value - readings.predict(form, theta)
        fit = np.einsum("si,sij,sj->s", left, precision, left)
        return np.asarray((fit + np.einsum("sk,skl,sl->s", theta - mean, weight, theta - mean)) / 2)

    def linearize(theta: Array) -> tuple[Array, Array]:
        moved = theta[:, None] + np.concatenate([np.zeros((1, len(eye))), _STEP * eye])
        predicted = readings.predict(form, moved)
        return predicted[:, 0], np.swapaxes((predicted[:, 1:] - predicted[:, :1]) / _STEP, 1, 2)

    best = objective(theta)
    damping = np.full(len(theta), 1e-3)
    for _ in range(iterations):
        predicted, slope = linearize(theta)
        weighted = np.swapaxes(slope, 1, 2) @ precision
        curvature = weighted @ slope + weight
        gradient = (weighted @ (value - predicted)[..., None] - weight @ (theta - mean)[..., None])[..., 0]
        waiting, gain = np.ones(len(theta), bool), 0.0
        for _ in range(_TRIES):
            scaled = damping[:, None, None] * np.einsum("sii->si", curvature)[:, :, None] * eye
            move = np.linalg.solve(curvature + scaled, gradient[..., None])[..., 0]
            tried = theta + np.clip(move, -_LONGEST_MOVE, _LONGEST_MOVE)
            found = objective(tried)
            better = waiting & (found < best)
            gain = max(gain, float((best - found)[better].max(initial=0.0)))
            theta, best = np.where(better[:, None], tried, theta), np.where(better, found, best)
            damping = np.where(better, damping / 5, np.where(waiting, np.maximum(damping * 10, 1e-3), damping))
            waiting &= ~better
            if not waiting.any():
                break
        if gain < 1e-3:
            break
    _, slope = linearize(theta)
    return theta, best, np.swapaxes(slope, 1, 2) @ precision @ slope + weight


Offset = Callable[[Sequence[Setting]], Array]
"""What to add to a form at n settings, to the logarithms of step time and power: shape (2, n)."""


@dataclass(frozen=True, eq=False)
class Belief:
    """A normal prior of the coefficients.

    Attributes:
        mean: Shape (k,).
        covariance: Shape (k, k).
        log_weight: Logarithm of its weight before anything is read.
        offset: What is added to the form.
        residual: Size of what is left over then, as a share of the usual one.
    """

    mean: Array
    covariance: Array
    log_weight: float = 0.0
    offset: Offset | None = None
    residual: float = 1.0

    @classmethod
    def independent(cls, mean: Array, sd: Array, log_weight: float = 0.0) -> Self:
        """Of coefficients that have nothing to do with one another, with standard deviations `sd`, shape (k,)."""
        return cls(mean, np.diag(sd**2), log_weight)


@dataclass(frozen=True)
class Hypotheses:
    """Priors and sizes of the residual, each weighted by how well it explains the readings; h of them.

    Attributes:
        theta: Most probable coefficients of each, shape (h, k).
        curvature: Inverse covariances around them, shape (h, k, k).
        covariance: Of residual and noise at the readings, shape (h, m, m).
        size: Size of the residual by output, shape (h, 2).
        belief: Index of the prior, shape (h,).
        weight: Posterior probability, shape (h,).
    """

    theta: Array
    curvature: Array
    covariance: Array
    size: Array
    belief: np.ndarray
    weight: Array


def weigh(
    form: Form,
    readings: Readings,
    kernel: Array,
    near: Array,
    roughness: Array,
    beliefs: Sequence[Belief],
    also: Sequence[Array] = (),
) -> Hypotheses:
    """Try every prior with every size of the residual.

    Args:
        form: The form.
        readings: What was read.
        kernel: Correlation of the residual between the settings of the readings, shape (n, n).
        near: Correlation of the roughness between them, shape (n, n).
        roughness: Standard deviation, by output, of what hardly reaches beyond one setting; shape (2,).
        beliefs: The priors.
        also: Coefficients to start from besides the usual ones, (k,) each.
    """
    row, output = readings.row, readings.output
    same_output = output[:, None] == output[None]
    correlation = kernel[np.ix_(row, row)] * same_output
    own = near[np.ix_(row, row)] * same_output * roughness[output] ** 2 + np.diag(readings.variance)
    powers = SIZES[1] if (output == 1).any() else SIZES[1, :1]
    factor = CPU_FACTOR if form.on_cpu else 1.0
    sizes = [(factor * time, power) for time in SIZES[0] for power in powers]
    begin = [[*starts(form, readings, b.mean), *also] for b in beliefs]
    chosen = [(b, s, start) for b, found in enumerate(begin) for s in range(len(sizes)) for start in found]
    belief, which = np.array([b for b, _, _ in chosen]), np.array([s for _, s, _ in chosen])
    size = np.array(sizes)[which] * np.array([b.residual for b in beliefs])[belief][:, None]
    covariance = correlation * size[:, output][:, :, None] * size[:, output][:, None, :] + own
    mean, prior = np.array([b.mean for b in beliefs]), np.array([b.covariance for b in beliefs])
    value = (readings.value - offsets(readings, beliefs))[belief]
    start = np.array([start for _, _, start in chosen])
    theta, loss, curvature = optimize(
        form, readings, value, np.linalg.inv(covariance), mean[belief], np.linalg.inv(prior)[belief], start, _ITERATIONS
    )
    log_weight = (
        np.array([b.log_weight for b in beliefs])[belief]
        + np.log([_SIZE_WEIGHT[t] * _SIZE_WEIGHT[p] for t in range(len(SIZES[0])) for p in range(len(powers))])[which]
    )
    log_det = np.linalg.slogdet(prior)[1][belief] + np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(curvature)[1]
    log_weight -= loss + log_det / 2
    weight = np.exp(log_weight - log_weight.max())
    return Hypotheses(theta, curvature, covariance, size, belief, weight / weight.sum())


def draw(
    form: Form, readings: Readings, hypotheses: Hypotheses, beliefs: Sequence[Belief], count: int, seed: int
) -> tuple[Array, np.ndarray]:
    """`count` samples of the coefficients, shape (count, k), and the hypothesis each belongs to, shape (count,)."""
    rng = np.random.default_rng(seed)
    of = np.searchsorted(np.cumsum(hypotheses.weight), (np.arange(count) + 0.5) / count).clip(
        0, len(hypotheses.weight) - 1
    )
    mean = np.array([b.mean for b in beliefs])[hypotheses.belief[of]]
    prior = np.array([b.covariance for b in beliefs])
    covariance = hypotheses.covariance[of]
    aside = (np.linalg.cholesky(prior)[hypotheses.belief[of]] @ rng.standard_normal((*mean.shape, 1)))[..., 0]
    noise = (np.linalg.cholesky(covariance) @ rng.standard_normal((count, len(readings.value), 1)))[..., 0]
    aside, noise = aside - aside.mean(0), noise - noise.mean(0)  # the samples' mean is the optimum where all is linear
    theta, _, _ = optimize(
        form,
        readings,
        (readings.value - offsets(readings, beliefs))[hypotheses.belief[of]] + noise,
        np.linalg.inv(covariance),
        mean + aside,
        np.linalg.inv(prior)[hypotheses.belief[of]],
        hypotheses.theta[of],
        _SAMPLE_ITERATIONS,
    )
    return theta, of


def offsets(readings: Readings, beliefs: Sequence[Belief]) -> Array:
    """What each prior adds to the form at the readings, shape (b, m)."""
    added = np.zeros((len(beliefs), len(readings.value)))
    for i, belief in enumerate(beliefs):
        if belief.offset is not None:
            added[i] = belief.offset(readings.settings)[readings.output, readings.row]
    return added


def starts(form: Form, readings: Readings, mean: Array) -> Array:
    """Where to look for the most probable coefficients, shape (s, k): a prior's mean (k,) scaled to the readings, and
    where a power limit may or may not bind, from either side."""
    time, power = readings.output == 0, readings.output == 1

    def scaled(theta: Array, *, keep_power: bool = False) -> Array:
        left = readings.value - readings.predict(form, theta)
        theta = theta.copy()
        if time.any():
            theta[form.index["time"]] += left[time].mean()
        if power.any() and not keep_power:
            theta[form.index["power"]] += left[power].mean()
        return theta

    found = [scaled(mean, keep_power=form.limit)]
    if form.limit and power.any():
        idle, free = mean.copy(), mean.copy()
        idle[form.index["t0"]] += 3  # the host is the brake
        idle[form.index["w"]] -= 1
        free[form.index["power"]] = readings.value[power].max() - np.log1p(np.exp(mean[form.index["p0"]]))
        found += [scaled(idle, keep_power=True), scaled(free, keep_power=True)]
    return np.array(found)
