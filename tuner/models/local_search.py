"""BoTorch's local search over the settings of a space too large to look at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim.optimize import optimize_acqf_discrete_local_search

from devices.device import Setting
from tuner.models.threads import single_threaded
from tuner.space import Space

if TYPE_CHECKING:
    from tuner.models.search import Worth


class _WorthOfRanks(AcquisitionFunction):  # type: ignore[misc]  # BoTorch is untyped here
    """The worth of settings as an acquisition function of the ranks of their values.

    BoTorch asks for a few at a time. What they are worth may depend on the others; so that answers can be compared,
    some settings are looked at beside them every time.
    """

    def __init__(self, space: Space, worth: Worth, beside: Sequence[Setting]) -> None:
        super().__init__(model=None)
        self._space, self._worth, self._beside = space, worth, list(beside)

    def forward(self, X: torch.Tensor) -> torch.Tensor:  # noqa: N803  # BoTorch's name
        """Worth of ranks X, shape (n, 1, d): shape (n,); minus infinity where a setting was not recorded."""
        settings = [setting_at(self._space, row) for row in X[:, 0].tolist()]
        found = self._worth([*settings, *self._beside])[: len(settings)]
        return torch.tensor(np.where([setting in self._space for setting in settings], found, -np.inf))


def climb(space: Space, worth: Worth, starts: Sequence[Setting], tried: Sequence[Setting]) -> Setting:
    """The best setting that is reached from `starts` by changing one knob after the other, never to a tried setting."""

    def ranks(settings: Sequence[Setting]) -> torch.Tensor:
        rows = [[knob.values.index(setting[knob.name]) for knob in space.knobs] for setting in settings]
        return torch.tensor(rows, dtype=torch.double).reshape(len(rows), len(space.knobs))

    with single_threaded():
        found, _ = optimize_acqf_discrete_local_search(
            _WorthOfRanks(space, worth, starts),
            discrete_choices=[torch.arange(len(knob.values), dtype=torch.double) for knob in space.knobs],
            q=1,
            num_restarts=len(starts),
            batch_initial_conditions=ranks(starts)[:, None],
            X_avoid=ranks(tried),
            return_acq_values=False,
        )
    return setting_at(space, found[0].tolist())


def setting_at(space: Space, ranks: Sequence[float]) -> Setting:
    """The setting whose values have these ranks in their knobs' lists."""
    return {knob.name: knob.values[int(rank)] for knob, rank in zip(space.knobs, ranks, strict=True)}
