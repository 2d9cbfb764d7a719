"""Guards against our own names: a user's `devices.py` beside a script hides the package of that name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


class ShadowedError(ImportError):
    """A file of the user's hides one of our packages."""


def require_own_devices() -> None:
    """Check, without importing it, that `devices` is the package beside `tuner`.

    Raises:
        ShadowedError: it is another one; the message names the file and what to do.
    """
    module = sys.modules.get("devices")
    spec = getattr(module, "__spec__", None) if module is not None else importlib.util.find_spec("devices")
    origin = spec.origin if spec is not None else getattr(module, "__file__", None)
    ours = Path(__file__).resolve().parent.parent / "devices" / "__init__.py"
    if origin is None or Path(origin).resolve() != ours:
        raise ShadowedError(
            f"{origin or 'something'} hides tuner's own package 'devices': rename that file, or run from another folder"
        )
