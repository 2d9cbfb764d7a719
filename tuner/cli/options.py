"""Types and options that several commands share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from devices.errors import InputError
from tuner.units import parse_knob_value, parse_power_w

KEPT = "kept"
"""Key of an error's state: what its JSON document holds besides the error, such as studies finished before it."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Whole(click.IntRange):
    """A whole number in a range, called so in what is said of others."""

    name = "whole number"


class Number(click.FloatRange):
    """A finite number in a range, called so in what is said of others."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):  # no comparison is true of nan
            self.fail(f"'{value}' is not a finite number.", param, ctx)
        return found


class Power(click.ParamType[float]):
    """A power in watts: `7W`, `6500mW`, `7`."""

    name = "power"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_power_w(str(value))
        except InputError as error:
            self.fail(f"{error.message} ({error.hint})", param, ctx)


class KnobValues(click.ParamType[tuple[str, tuple[float, ...]]]):
    """`KNOB=V,V,...`: a knob with the values it may take."""

    name = "KNOB=V,V,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[float, ...]]:
        knob, equals, listed = str(value).partition("=")
        if not equals or not knob or not listed:
            self.fail(f"'{value}' is not KNOB=V,V,... (such as batch_size=8,16,32)", param, ctx)
        try:
            return knob, tuple(parse_knob_value(knob, part) for part in listed.split(","))
        except InputError as error:
            self.fail(f"{error.message} ({error.hint})", param, ctx)


class KeyValue(click.ParamType[tuple[str, Any]]):
    """`K=V`, the value read as JSON where it is some (32, true), as text otherwise."""

    name = "K=V"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"'{value}' is not K=V (such as image_size=32)", param, ctx)
        try:
            return key, json.loads(text, parse_constant=lambda name: name)
        except json.JSONDecodeError:
            return key, text


def json_option(command: Command) -> Command:
    """`--json`: one JSON document on standard output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(command)


def store_option(command: Command) -> Command:
    """`--store`: where the studies are."""
    text = "Where the studies are kept: a file, or a database URL.  [default: $TUNER_STORE, or the user's data folder]"
    return click.option("--store", metavar="URL", help=text)(command)


def root_option(command: Command) -> Command:
    """`--sysfs-root`: where the board's files are."""
    text = "The board's files are under this folder: a fake board's, or a copy; such figures are emulated."
    return click.option("--sysfs-root", default="/", metavar="DIR", help=text)(command)


def access_options(command: Command) -> Command:
    """`--emulate`, `--meter`, `--sysfs-root`: which device answers, and what measures its power."""
    command = root_option(command)
    text = "Another power meter: a command that prints watts, one a line, or an http address that answers them."
    command = click.option("--meter", metavar="COMMAND|URL", help=text)(command)
    return click.option("--emulate", is_flag=True, help="Emulate the board even where it is here.")(command)


def workload_options(command: Command) -> Command:
    """`--workload-arg`, `--data`, `--python`: how what is trained is made, and by which Python."""
    for option in (
        click.option("--python", metavar="PATH", help="The Python that trains, with its torch."),
        click.option("--data", metavar="PATH", help="Training data, a path on the device.  [default: synthetic]"),
        click.option("--workload-arg", type=KeyValue(), multiple=True, metavar="K=V", help="Argument of the workload."),
    ):
        command = option(command)
    return command


def space_options(command: Command) -> Command:
    """`--preset`, `--search`, `--values`: which settings of a device there are."""
    for option in (
        click.option("--values", type=KnobValues(), multiple=True, metavar="K=V,V,...", help="Values a knob may take."),
        click.option(
            "--search",
            metavar="KNOB,...",
            help="Search these knobs too: cpu_threads, cpu_freq_mhz, ... (tune devices).",
        ),
        click.option("--preset", metavar="P", help="What a power mode pins (CPU, EMC).  [default: auto]"),
    ):
        command = option(command)
    return command


def noise_options(command: Command) -> Command:
    """`--noise-throughput`, `--noise-power`: noise on recorded values."""
    for name, share in (("power", 1), ("throughput", 2)):
        text = f"Noise on a replay's {name}, {share / 100} is {share} %.  [default: none]"
        command = click.option(f"--noise-{name}", type=float, metavar="X", help=text)(command)
    return command


def split_names(text: str | None, option: str) -> tuple[str, ...]:
    """`a,b` as a tuple, without repetition; empty where the option was left out.

    Raises:
        InputError: a text that names nothing.
    """
    names = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    if text is not None and not names:
        raise InputError(f"{option} {text} names nothing", hint=f"{option} NAME,NAME, or leave {option} out")
    return names


def unique(pairs: Sequence[tuple[str, Any]], option: str) -> Mapping[str, Any]:
    """Pairs as a mapping.

    Raises:
        InputError: a key given twice.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"{option} names {key} twice", hint=f"{option} {key}=... once")
        found[key] = value
    return found


def print_json(document: Any) -> None:
    """`document` on standard output; never NaN."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))
