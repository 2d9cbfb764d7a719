"""Caps as a comparison names them: watts, or a share of what a profile ranges over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from devices.errors import InputError, UnsupportedError
from devices.profile import Profile
from tuner.units import parse_power_w, watts

_HINT = "--cap 7W,25%,50%"


@dataclass(frozen=True)
class CapSpec:
    """A cap before it meets a profile; one of the two is None.

    Attributes:
        watts: The cap itself.
        share: In (0, 1], of the profile's own range of `power_mean_w` over its ok rows.
    """

    watts: float | None = None
    share: float | None = None

    def __str__(self) -> str:
        return f"{(self.share or 0.0) * 100:g} %" if self.watts is None else watts(self.watts)

    def resolve(self, profile: Profile, name: str) -> float:
        """The cap in watts on a profile: a share is lowest + share * (highest - lowest).

        Raises:
            InputError: a share that comes to no power at all.
            UnsupportedError: a share of a power that the profile, called `name`, does not record.
        """
        if self.watts is not None:
            return self.watts
        range_w = profile.power_range_w("mean")
        if range_w is None:
            raise UnsupportedError(
                f"{name} records no power_mean_w, so there is no range to take {self} of", hint="--cap in watts"
            )
        low_w, high_w = range_w
        cap_w = low_w + (self.share or 0.0) * (high_w - low_w)
        if not (math.isfinite(cap_w) and cap_w > 0):
            raise InputError(
                f"--cap {self} of the power_mean_w of {name} ({watts(low_w)} to {watts(high_w)}) is {watts(cap_w)}, "
                "and a cap is above 0 W",
                hint="--cap in watts, or leave that profile out",
            )
        return cap_w


def parse_caps(text: str) -> tuple[CapSpec, ...]:
    """`7W,6500mW,25%` as caps, each once, in the order given.

    Raises:
        InputError: a part that is no power and no share above 0 % and up to 100 %.
    """
    parts = [part.strip() for part in text.split(",")]
    return tuple(dict.fromkeys(_parse(part) for part in parts))


def _parse(text: str) -> CapSpec:
    if not text.endswith("%"):
        try:
            return CapSpec(watts=parse_power_w(text))
        except InputError as error:
            raise InputError(f"--cap: {error.message}", hint=_HINT) from None
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        raise InputError(f"--cap: '{text}' is no share", hint=_HINT) from None
    if not (math.isfinite(share) and 0 < share <= 1):
        raise InputError(
            f"--cap: a share of the range of power is above 0 % and at most 100 %, not '{text}'", hint=_HINT
        )
    return CapSpec(share=share)
