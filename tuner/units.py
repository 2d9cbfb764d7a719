"""Quantities as people type them (`7W`, `6500mW`, `7`; `510MHz`) and read them (`7 W`, `4.5 min`, `1.7 kJ`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from devices.errors import InputError

_POWER_W: Mapping[str, float] = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}
_FREQUENCY_MHZ: Mapping[str, float] = {"": 1.0, "mhz": 1.0, "ghz": 1e3, "khz": 1e-3, "hz": 1e-6}
_Larger = Sequence[tuple[str, float, float]]  # units, the largest first, each with its size and from where it is used
_QUANTITY = re.compile(r"^\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-z]*)\s*$", re.IGNORECASE)


def _parse(text: str, what: str, units: Mapping[str, float], example: str) -> float:
    match = _QUANTITY.match(text)
    try:
        if match is None:
            raise ValueError(text)
        number = float(match[1])
    except ValueError:
        raise InputError(f"'{text}' is not {what}", hint=f"a number with its unit, such as {example}") from None
    if match[2].lower() not in units:
        known = ", ".join(unit for unit in units if unit)
        raise InputError(
            f"'{text}' is not {what}: unknown unit '{match[2]}'", hint=f"units: {known}; such as {example}"
        )
    value = number * units[match[2].lower()]
    if not math.isfinite(value) or value <= 0:
        raise InputError(f"{what} must be a finite number greater than 0, not '{text}'", hint=f"such as {example}")
    return value


def parse_power_w(text: str) -> float:
    """Watts from `7W`, `6500mW` or `7`.

    Raises:
        InputError: no number, an unknown unit, zero, negative or not finite.
    """
    return _parse(text, "a power", _POWER_W, "7W or 6500mW")


def parse_frequency_mhz(text: str) -> float:
    """Megahertz from `510MHz`, `0.51GHz` or `510`.

    Raises:
        InputError: no number, an unknown unit, zero, negative or not finite.
    """
    return _parse(text, "a frequency", _FREQUENCY_MHZ, "510MHz")


def parse_knob_value(knob: str, text: str) -> float:
    """A value of `knob` in the unit its name states (`gpu_freq_mhz`: MHz, `power_limit_w`: W, others: plain numbers).

    Raises:
        InputError: not a number, an unknown unit, or below 0 for a clock or a power.
    """
    if knob.endswith("_mhz"):
        return parse_frequency_mhz(text)
    if knob.endswith("_w"):
        return parse_power_w(text)
    try:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(text)
    except ValueError:
        raise InputError(f"'{text}' is no value of {knob}", hint="a plain number, such as 16") from None
    return value


def number(value: Any) -> str:
    """A value as people write it: `2` where it is 2.0, no digit lost; what is no number as it is."""
    return f"{value:.10g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _in_unit(value: float, unit: str, larger: _Larger) -> str:
    for name, size, least in larger:
        if value >= least:
            return f"{value / size:.1f} {name}"
    return f"{value:.0f} {unit}" if value >= 0.95 else f"{value:.2g} {unit}"


def seconds(duration_s: float) -> str:
    """`45 s`, `4.5 min`, `1.2 h`."""
    return _in_unit(duration_s, "s", (("h", 3600.0, 7200.0), ("min", 60.0, 119.5)))


def joules(energy_j: float) -> str:
    """`850 J`, `1.7 kJ`, `2.3 MJ`."""
    return _in_unit(energy_j, "J", (("MJ", 1e6, 999_950.0), ("kJ", 1e3, 999.5)))


def watts(power_w: float, digits: int = 6) -> str:
    """`7 W`, `6.96 W`, `7 kW`: to `digits` significant digits."""
    return f"{power_w:.{digits}g} W" if power_w < 1000 else f"{power_w / 1000:.{digits}g} kW"
