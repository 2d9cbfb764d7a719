"""The analytic fits to the GPU sweeps of BoFL (Guo et al., Middleware 2022) in reference/papers.md, section 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devices.device import Knob
from tuner.models.analytic import Point

AGX_XAVIER_MHZ = (
    *(114.75, 216.75, 318.75, 420.75, 522.75, 624.75, 675.75),
    *(828.75, 905.25, 1032.75, 1198.5, 1236.75, 1338.75, 1377.0),
)
TX2_MHZ = (114.75, 216.75, 318.75, 420.75, 522.75, 624.75, 726.75, 854.25, 930.75, 1032.75, 1122.0, 1236.75, 1300.5)


@dataclass(frozen=True)
class PublishedFit:
    """T = t0 + c1/f and P = p0 + p1 f + p3 f^3, f in GHz; mean relative errors of both."""

    name: str
    clocks_mhz: tuple[float, ...]
    t0: float
    c1: float
    time_error: float
    p0: float
    p1: float
    p3: float
    power_error: float

    @property
    def knob(self) -> Knob:
        return Knob("gpu_freq_mhz", self.clocks_mhz)

    @property
    def coefficients(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("t0", "c1", "p0", "p1", "p3")}

    def points(self, seed: int | None = None) -> list[Point]:
        """The curves at the board's clocks; with a seed, with noise of the published mean errors."""
        f = np.array(self.clocks_mhz) / 1e3
        draws = np.zeros((2, len(f))) if seed is None else np.random.default_rng(seed).standard_normal((2, len(f)))
        spread = np.sqrt(np.pi / 2)  # standard deviation over mean deviation of a normal distribution
        time = (self.t0 + self.c1 / f) * np.exp(spread * self.time_error * draws[0])
        power = (self.p0 + self.p1 * f + self.p3 * f**3) * np.exp(spread * self.power_error * draws[1])
        rows = zip(self.clocks_mhz, time.tolist(), power.tolist(), strict=True)
        return [Point({"gpu_freq_mhz": clock}, t, p) for clock, t, p in rows]


PUBLISHED = (
    PublishedFit("AGX Xavier, ViT", AGX_XAVIER_MHZ, 0.0195, 0.2219, 0.012, 6.50, 5.46, 3.67, 0.027),
    PublishedFit("AGX Xavier, LSTM", AGX_XAVIER_MHZ, 0.0493, 0.3073, 0.017, 6.44, 6.29, 2.50, 0.015),
    PublishedFit("AGX Xavier, ResNet50", AGX_XAVIER_MHZ, 0.0168, 0.3243, 0.011, 6.33, 6.01, 3.75, 0.021),
    PublishedFit("TX2, ViT", TX2_MHZ, 0.0942, 0.4250, 0.050, 3.75, 4.36, 0.72, 0.021),
    PublishedFit("TX2, LSTM", TX2_MHZ, 0.1804, 0.5472, 0.053, 3.89, 5.23, 0.29, 0.020),
    PublishedFit("TX2, ResNet50", TX2_MHZ, 0.1738, 0.7269, 0.039, 3.83, 4.23, 0.87, 0.021),
)
