"""Checks of knobs' values and of settings, in words for the user; shared by the devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from devices.device import DeviceInfo, Setting
from devices.errors import InputError

DEFAULT_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def check_batches(wanted: Sequence[float]) -> Sequence[float]:
    """`wanted`, if all are batch sizes.

    Raises:
        InputError: one is no whole number >= 1.
    """
    for value in wanted:
        if not float(value).is_integer() or value < 1:
            raise InputError(f"a batch size is a whole number >= 1, not {value:g}", hint="--values batch_size=8,16,32")
    return wanted


def check_steps(name: str, wanted: Sequence[float], steps: Sequence[float]) -> Sequence[float]:
    """`wanted`, if all are steps of the knob.

    Raises:
        InputError: one is none; the nearest are named.
    """
    for value in wanted:
        if value not in steps:
            hint = f"nearest: {listed(nearest(steps, value))}"
            raise InputError(f"{name} has no step {value:g}", hint=hint, knob=name)
    return wanted


def check_setting(info: DeviceInfo, setting: Setting) -> None:
    """Check that a setting names every knob of a device, no other, each with one of its values or its default.

    Raises:
        InputError: it does not; the nearest values are named.
    """
    knobs = {knob.name: knob for knob in info.knobs}
    for name in setting:
        if name not in knobs:
            raise InputError(f"{info.name} has no knob '{name}'", hint=f"knobs: {', '.join(knobs)}")
    for name, knob in knobs.items():
        if name not in setting:
            raise InputError(f"the setting names no {name}", hint=f"values: {listed(knob.values)}")
        if setting[name] not in knob.values and setting[name] != knob.default:
            raise InputError(
                f"{name} = {setting[name]:g} is none of this device's values",
                hint=f"nearest: {listed(nearest(knob.values, setting[name]))}",
            )


def nearest(steps: Sequence[float], value: float) -> Sequence[float]:
    """The two steps nearest to `value`, ascending."""
    return sorted(sorted(steps, key=lambda step: abs(step - value))[:2])


def listed(values: Iterable[float]) -> str:
    """`1, 2, 4`."""
    return ", ".join(f"{value:g}" for value in values)
