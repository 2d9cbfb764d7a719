"""What a device runs at when nobody tunes it, and the settings that differ from it in one knob."""

from __future__ import annotations

from devices.device import BATCH_KNOB, Knob, Setting
from tuner.space import Space


def untuned_setting(space: Space) -> Setting:
    """Every knob at the value nearest its default; where none is known: the highest, as stock boards run, but of the
    batch sizes the middle one, as nobody begins with the largest."""
    return {knob.name: _untuned_value(knob) for knob in space.knobs}


def _untuned_value(knob: Knob) -> float:
    if knob.default is not None:
        return _nearest(knob, knob.default)
    return knob.values[(len(knob.values) - 1) // 2] if knob.name == BATCH_KNOB else knob.values[-1]


def _nearest(knob: Knob, wanted: float) -> float:
    return min(knob.values, key=lambda value: abs(value - wanted))


def line(space: Space, along: str, through: Setting) -> Space:
    """The part of `space` where only the knob `along` differs, all others as near to `through` as settings exist."""
    fixed: Setting = {knob.name: _nearest(knob, through[knob.name]) for knob in space.knobs}
    if fixed not in space:
        fixed = space.nearest(through, [{**setting, along: through[along]} for setting in space.settings])
    return narrowed(space, tuple(space.part({n: (fixed[n],) for n in space.names if n != along}).settings))


def narrowed(space: Space, settings: tuple[Setting, ...]) -> Space:
    """The part of `space` that has these settings only, and of each knob the values they have."""
    knobs = (
        Knob(knob.name, tuple(sorted({setting[knob.name] for setting in settings})), knob.default)
        for knob in space.knobs
    )
    return Space(tuple(knobs), settings)
