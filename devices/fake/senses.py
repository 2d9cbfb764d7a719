"""What a fake board feels: its rails through meters that lag and flicker, and its temperature."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from devices.catalog import Meter

AMBIENT_C = 28.0
_WARM_UP_S = 40.0  # time constant of the module with its heat sink
_CONVERSION_S = 0.02  # the chip has nothing new before that
_NO_LAG_S = 1e-3


class Senses:
    """Integrates what was drawn between two looks. Watts by the label of the rail.

    Args:
        meter: Of the catalog; None: a board that cannot tell its power.
        watts: What every rail draws at the beginning.
        kelvin_per_w: By how much a watt warms the board.
        seed: Of the noise.
        now_s: The moment it begins.

    Attributes:
        stuck: Whether the meters stand still.
    """

    def __init__(
        self, meter: Meter | None, watts: Mapping[str, float], kelvin_per_w: float, seed: int, now_s: float
    ) -> None:
        self._meter = meter
        self._shown = dict(watts)
        self._kelvin_per_w = kelvin_per_w
        self._random = random.Random(f"senses {seed}")
        self._flicker = self._random.gauss(0.0, 1.0)
        self._now_s = now_s
        self.temperature_c = AMBIENT_C
        self.stuck = False

    def settle(self, total_w: float) -> None:
        """As after a long time at that power."""
        self.temperature_c = AMBIENT_C + self._kelvin_per_w * total_w

    def is_due(self, now_s: float) -> bool:
        """Whether the meter has something new."""
        return now_s - self._now_s >= _CONVERSION_S

    def feel(self, watts: Mapping[str, float], total_w: float, now_s: float) -> None:
        """Take in that these watts were drawn since the last time."""
        elapsed_s = now_s - self._now_s
        self._now_s = now_s
        if not self.stuck:
            self._show(watts, elapsed_s)
        steady_c = AMBIENT_C + self._kelvin_per_w * total_w
        self.temperature_c = steady_c + (self.temperature_c - steady_c) * math.exp(-elapsed_s / _WARM_UP_S)

    def _show(self, watts: Mapping[str, float], elapsed_s: float) -> None:
        lag_s = max(self._meter.lag_s if self._meter else 0.0, _NO_LAG_S)
        kept = math.exp(-elapsed_s / lag_s)
        for label, now_w in watts.items():
            self._shown[label] = now_w + (self._shown[label] - now_w) * kept
        self._flicker = kept * self._flicker + math.sqrt(1 - kept**2) * self._random.gauss(0.0, 1.0)

    def watts(self, label: str) -> float:
        """What the meter of a rail shows."""
        ripple = self._meter.ripple if self._meter else 0.0
        return max(self._shown[label] * (1 + ripple * self._flicker), 0.0)
