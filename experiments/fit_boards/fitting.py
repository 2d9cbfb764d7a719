"""Least squares over the parameters of a board, each with a prior: a plausible value and the factor it may be off by.

Published figures are too few to pin every parameter of a board. What a fit does not name stays as the catalog has it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from devices.catalog import Board

Priors = Mapping[str, tuple[float, float]]
"""`part.field`, or `part.curve@MHz` for a point of a curve: plausible value, and the factor of a standard deviation."""


@dataclass(frozen=True)
class Fit:
    """What a board is fitted to.

    Attributes:
        priors: The parameters. Of a curve all points are named, ascending.
        misfits: Of a board, in units of what each published figure may be off by.
        report: Prints published and emulated figures of a board.
    """

    priors: Priors
    misfits: Callable[[Board], Sequence[float]]
    report: Callable[[Board], None]


def with_parameters(board: Board, values: Mapping[str, float]) -> Board:
    """The board with these parameters, named as in `Priors`."""
    fields: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        part, _, field = name.partition(".")
        field, at, mhz = field.partition("@")
        if at:
            curve = fields.setdefault(part, {}).get(field, ())
            fields[part][field] = (*curve, (float(mhz), value))
        else:
            fields.setdefault(part, {})[field] = value
    parts = {part: dataclasses.replace(getattr(board, part), **changed) for part, changed in fields.items()}
    return dataclasses.replace(board, **parts)


def fitted(board: Board, fit: Fit) -> dict[str, float]:
    """The parameters that fit best, by name."""
    plausible = np.log([value for value, _ in fit.priors.values()])
    factors = np.log([factor for _, factor in fit.priors.values()])

    def named(logarithms: npt.NDArray[np.float64]) -> dict[str, float]:
        return {name: math.exp(value) for name, value in zip(fit.priors, logarithms, strict=True)}

    def residuals(logarithms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        misfits = fit.misfits(with_parameters(board, named(logarithms)))
        return np.concatenate([misfits, (logarithms - plausible) / factors])

    return named(least_squares(residuals, plausible).x)
