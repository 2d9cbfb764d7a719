"""What the form gets wrong: how alike it is at two settings, smooth part and roughness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devices.device import BATCH_KNOB, Knob, Setting
from tuner.models.forms import Array

_OCTAVES = 3.0  # of the batch size over which the residual changes
_RANGES = 0.5  # of a clock's range
_SAME_KERNELS = 0.06  # relative difference of a knob's values over which roughness changes


def coordinates(knobs: Sequence[Knob], settings: Sequence[Setting]) -> Array:
    """Where settings are, in lengths over which the residual changes; shape (n, d)."""
    columns = []
    for knob in knobs:
        values = np.array([float(setting[knob.name]) for setting in settings])
        low, high = knob.values[0], knob.values[-1]
        if knob.name == BATCH_KNOB:
            columns.append(np.log2(values) / _OCTAVES)
        else:
            columns.append((values - low) / ((high - low) or 1.0) / _RANGES)
    return np.column_stack(columns)


def correlation(knobs: Sequence[Knob], here: Sequence[Setting], there: Sequence[Setting]) -> Array:
    """Correlation of the residual between settings, shape (len(here), len(there)): GPyTorch's Matern 5/2 kernel."""
    if not here or not there:
        return np.zeros((len(here), len(there)))
    import torch  # here: the rest of the package must not wait seconds for it
    from gpytorch.kernels import MaternKernel

    kernel = MaternKernel(nu=2.5).double()
    kernel.lengthscale = 1.0
    with torch.no_grad():
        places = (torch.tensor(coordinates(knobs, settings)) for settings in (here, there))
        return np.asarray(kernel(*places).to_dense().numpy())


def nearness(knobs: Sequence[Knob], here: Sequence[Setting], there: Sequence[Setting]) -> Array:
    """Correlation of the roughness between settings, shape (len(here), len(there)): 1 for the same, hardly any for the
    next on a usual list; but batch sizes of 130 and 131 run alike, and must not be tried one by one for luck."""
    found = np.ones((len(here), len(there)))
    for knob in knobs:
        left, right = (np.array([float(setting[knob.name]) for setting in settings]) for settings in (here, there))
        largest = np.maximum(np.abs(left)[:, None], np.abs(right)[None])
        apart = np.abs(left[:, None] - right[None]) / np.where(largest > 0, largest, 1.0)
        found *= np.exp(-((apart / _SAME_KERNELS) ** 2) / 2)
    return found
