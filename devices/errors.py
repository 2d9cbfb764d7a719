"""The one error tree. Its base lives here because `devices` is the lowest package.

Every error says what is wrong and where, carries a `hint` with the command or value that mends it, and keeps the
state worth having as attributes. A failed burst is *not* an error: it is a status of a `Measurement`.
"""

from __future__ import annotations

from typing import Any, ClassVar


class TunerError(Exception):
    """Base of all errors a user can meet.

    Args:
        message: One clear sentence: what is wrong, and where.
        hint: The command or value that mends it.
        state: What the error knows (path, knob, reading); kept as attributes' dictionary `state`.
    """

    kind: ClassVar[str] = "failure"

    def __init__(self, message: str, *, hint: str | None = None, **state: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.state = state


class InputError(TunerError):
    """The user must retype something: an option, a file, a specification."""

    kind = "input"


class ProfileError(InputError):
    """A recorded profile that cannot be used; `state` holds the path and, where known, the line."""

    kind = "profile"


class UnsupportedError(InputError):
    """Something this device, profile or strategy cannot do (a cap without a meter, training on a replay)."""

    kind = "unsupported"


class SpecificationChangedError(InputError):
    """A study of that name exists with another specification; `state["differences"]` lists them."""

    kind = "specification"


class StudyInUseError(InputError):
    """Another process holds the study."""

    kind = "in-use"


class DeviceError(TunerError):
    """The device, the board or its agent failed in a way that is not a burst's status."""

    kind = "device"


class DeviceLostError(DeviceError):
    """The device stopped answering; the running trial was not measured."""

    kind = "device-lost"


class StoreError(TunerError):
    """The store could not be opened, read or written."""

    kind = "store"
