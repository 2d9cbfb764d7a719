"""What an analytic model can be given: every number, setting, point and knob is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from devices.device import Knob, Setting
from devices.errors import InputError
from devices.profile import Profile, format_setting
from tuner.checks import check_number

if TYPE_CHECKING:
    from tuner.models.analytic_fit import Point
    from tuner.models.forms import Form

Item = TypeVar("Item")

_LEAST, _MOST = 1e-50, 1e50  # beyond, the cube of a clock's share leaves what a float can hold


def check_size(value: object, what: str, need: str = "above 0") -> float:
    """`value` as a number that is as needed (see `check_number`), and of a size that can be computed with.

    Raises:
        InputError: it is none.
    """
    if isinstance(value, int | float) and value != 0 and abs(value) != float("inf"):
        size = abs(value)
        if size < _LEAST or size > _MOST:
            raise InputError(f"{what} is beyond what can be computed with, {_LEAST:g} to {_MOST:g}: {repr(value)[:12]}")
    return check_number(value, what, need)


def check_list(values: Iterable[Item], kind: type, what: str) -> list[Item]:
    """`values` as a list, each of a kind.

    Raises:
        InputError: no iterable, or one of another kind.
    """
    if not isinstance(values, Iterable):
        raise InputError(f"{what} are a list, not {values!r:.60}")
    found = list(values)
    for value in found:
        if not isinstance(value, kind):
            raise InputError(f"each of {what} is a {kind.__name__}, not {value!r:.60}")
    return found


def check_knobs(knobs: Iterable[Knob], signless: Sequence[str]) -> tuple[Knob, ...]:
    """The knobs of a model; values of those in `signless` are above 0, those of others any numbers.

    Raises:
        InputError: no knob, one that is none, two of one name, or a value that cannot be.
    """
    found = tuple(check_list(knobs, Knob, "the knobs of an analytic model"))
    if not found:
        raise InputError("an analytic model needs one knob or more")
    names = [knob.name for knob in found]
    if double := [name for name in names if names.count(name) > 1]:
        raise InputError(f"an analytic model has each knob once, and {double[0]} more often")
    for knob in found:
        for value in knob.values:
            check_size(value, f"a value of the knob {knob.name}", _need(knob.name in signless))
    return found


def check_setting(form: Form, setting: Setting, what: str) -> None:
    """Check that a setting names every knob of a form and no other.

    Raises:
        InputError: it does not, or a value is no number, or not positive where the form divides by it.
    """
    if not isinstance(setting, Mapping):
        raise InputError(f"a {what} is a value for each of {', '.join(form.knobs)}, not {setting!r:.60}")
    for name in form.knobs:
        if name not in setting:
            raise InputError(f"the {what} {_named(setting)} has no {name}")
        check_size(setting[name], f"{name} of the {what} {_named(setting)}", _need(name not in form.others))
    if len(setting) > len(form.knobs):
        extra = next(name for name in setting if name not in form.knobs)
        raise InputError(f"the {what} {_named(setting)} has {extra}, which is no knob of the model")


def check_settings(form: Form, settings: Iterable[Setting]) -> list[Setting]:
    """The settings as a list, each as of `check_setting`.

    Raises:
        InputError: no list of settings, or a faulty one.
    """
    if isinstance(settings, Mapping):
        raise InputError(f"settings are a list of them, not the one {_named(settings)}")
    found = check_list(settings, object, "settings")
    for setting in found:
        check_setting(form, setting, "setting")
    return found


def check_point(form: Form, point: Point) -> None:
    """Check what was measured at a point.

    Raises:
        InputError: a faulty setting, or a value that cannot be.
    """
    check_setting(form, point.setting, "point at")
    where = f"of the point at {_named(point.setting)}"
    check_size(point.step_time_s, f"the step time {where}")
    if point.power_w is not None:
        check_size(point.power_w, f"the power {where}")
    check_size(point.step_time_error, f"the error of the step time {where}", "of 0 or more")
    check_size(point.power_error, f"the error of the power {where}", "of 0 or more")


def check_profile(profile: Profile) -> None:
    """Check the figures of a profile that a model is fitted to.

    Raises:
        InputError: no profile, no valid row, or one with a figure that cannot be.
    """
    if not isinstance(profile, Profile):
        raise InputError(f"a model is fitted to a Profile, not {profile!r:.60}", hint="read_profile reads a file")
    for row in profile.ok_rows:
        where = f"of the row at {_named(row.setting)}"
        for name in ("throughput", "power_mean_w", "power_p95_w", "power_peak_w"):
            value = getattr(row, name)
            if value is not None:
                check_size(value, f"the {name} {where}")


def _need(positive: bool) -> str:
    return "above 0" if positive else "that is finite"


def _named(setting: Setting) -> str:
    """The setting in words, whatever its values are."""
    try:
        return format_setting(setting)
    except (TypeError, ValueError, OverflowError, InputError):
        return str(dict(setting))
