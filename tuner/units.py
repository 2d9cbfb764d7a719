"""Quantities as people type them: `7W`, `6500mW`, `7`; `510MHz`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from devices.errors import InputError

_POWER_W: Mapping[str, float] = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}
_FREQUENCY_MHZ: Mapping[str, float] = {"": 1.0, "mhz": 1.0, "ghz": 1e3, "khz": 1e-3, "hz": 1e-6}
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
