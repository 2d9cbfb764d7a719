"""The residual process: how alike what the form gets wrong is at two settings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devices.device import BATCH_KNOB, Knob, Setting
from tuner.models.forms import Array

_OCTAVES = 3.0  # of the batch size over which the residual changes
_RANGES = 0.5  # of a clock's range


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
