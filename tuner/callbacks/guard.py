"""What the callbacks have in common: the setting is held from the first step to the last, the cap is watched."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Literal

from devices.device import Access
from devices.errors import DeviceError, DeviceLostError, InputError
from devices.hold import Reading
from tuner.applied import Tuned, apply
from tuner.batches import whole_batches
from tuner.frozen import read_frozen
from tuner.frozen_check import frozen_training

METER_LOST_S = 60.0  # without a reading, before a cap counts as not watched; as in a full training
ACTIONS = ("stop", "warn")
FIGURES = ("power_mean_w", "power_peak_w", "energy_j", "time_over_cap_s", "unmetered_s")

OnBreach = Literal["stop", "warn"]


class CapGuard:
    """Of one callback; it may see several trainings, one after another.

    Args:
        frozen, accept_source, access: As in `tuner.apply`.
        on_breach: What becomes of a training that breaks the cap: `stop` or `warn`.
        warn: Gets sentences for the user.

    Attributes:
        reading: What was seen last; of the whole training, after its end.

    Raises:
        InputError: no frozen config, or another action.
    """

    def __init__(
        self,
        frozen: str | os.PathLike[str],
        on_breach: OnBreach,
        accept_source: bool,
        access: Access,
        warn: Callable[[str], None],
    ) -> None:
        if on_breach not in ACTIONS:
            raise InputError(f"on_breach is {' or '.join(ACTIONS)}, not {on_breach!r}", hint='on_breach="stop"')
        path = Path(frozen)
        self._batches = whole_batches(frozen_training(read_frozen(path), path))  # before a model is loaded
        self._stops = on_breach == "stop"
        self._warn = warn
        self._path, self._accept_source, self._access = path, accept_source, access
        self._applied: AbstractContextManager[Tuned] | None = None
        self._tuned: Tuned | None = None
        self._said: set[str] = set()
        self._silent_s: float | None = None
        self.reading = Reading()

    def begin(self, processes: int, micro_batch: int | None, accumulation_steps: int) -> None:
        """A training begins: hold the setting.

        Args:
            processes: That train together.
            micro_batch, accumulation_steps: What it was told; None: not known.

        Raises:
            InputError, DeviceError: as `tuner.apply`; or several processes.
        """
        self.end()
        if processes > 1:
            raise InputError(f"this callback is for one process, {processes} train", hint="leave it out")
        asked = (micro_batch or self._batches.micro_batch, accumulation_steps)
        tuned = (self._batches.micro_batch, self._batches.accumulation_steps)
        if asked != tuned:
            self._warn("micro-batches of {} x {} are trained; {} x {} were tuned".format(*asked, *tuned))
        self._said.clear()
        self._silent_s = None
        applied = apply(self._path, accept_source=self._accept_source, access=self._access)
        self._tuned = applied.__enter__()
        self._applied = applied  # dropped without an end, it restores too

    def must_stop(self) -> bool:
        """Look at the meter, once a second at most; whether the training must end."""
        if self._tuned is None:
            return False
        try:
            self.reading = self._tuned.reading
        except DeviceLostError as error:
            self._tuned = None  # its guardian puts the clocks back
            return self._breach("lost", f"{error.message}: its clocks and the cap are no longer held")
        if self.reading.slowed is not None:
            self._say(self.reading.slowed, self.reading.slowed)
        return self._is_broken(self._tuned, self.reading)

    def end(self) -> dict[str, float]:
        """The training ended: put everything back; the figures of its power, as far as they are known. May be called
        again, and without a beginning. What cannot be put back is said: no training is lost for that.
        """
        applied, tuned = self._applied, self._tuned
        self._applied = self._tuned = None
        if applied is None:
            return {}
        try:
            applied.__exit__(None, None, None)
        except DeviceLostError as error:
            self._say("lost", error.message)
        except DeviceError as error:
            self._say("end", f"{error.message} ({error.hint})")
        if tuned is not None:
            self.reading = tuned.reading
        return {name: value for name in FIGURES if (value := getattr(self.reading, name)) is not None}

    def _is_broken(self, tuned: Tuned, reading: Reading) -> bool:
        if tuned.cap_w is None:
            return False
        over = reading.over_cap
        if over is not None:
            text = f"{over.power_w:.4g} W for {over.for_s:.1f} s is more than 10 % above the cap of {tuned.cap_w:g} W"
            return self._breach("cap", text)
        if reading.fault is None:
            self._silent_s = None
        elif self._silent_s is None:
            self._silent_s = monotonic()
        elif monotonic() - self._silent_s > METER_LOST_S:
            return self._breach("meter", f"the cap of {tuned.cap_w:g} W cannot be watched: {reading.fault}")
        return False

    def _breach(self, what: str, text: str) -> bool:
        self._say(what, f"{text}; the training {'ends' if self._stops else 'goes on'}")
        return self._stops

    def _say(self, what: str, text: str) -> None:
        """Say a sentence; one about the same matter once a training."""
        if what not in self._said:
            self._said.add(what)
            self._warn(text)
