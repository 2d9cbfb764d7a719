"""`lut`: the full grid, as Ahmed et al. (arXiv 2502.18323) fill their look-up tables of time and power."""

from __future__ import annotations

from tuner.strategies.grid import GridStrategy


class LutStrategy(GridStrategy):
    """`grid` under the name the literature gives it: profile every setting, then take the best one under the cap."""

    name = "lut"
