"""Guards against our own names: a user's `devices.py` beside a script hides the package of that name."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path


class ShadowedError(ImportError):
    """A file of the user's hides one of our packages."""


def require_own_devices() -> None:
    """Check, without importing it, that `devices` is the package beside `tuner`.

    Raises:
        ShadowedError: it is another one; the message names the file and what to do. On the command line that is
            printed, and the exit status is 2.
    """
    module = sys.modules.get("devices")
    spec = getattr(module, "__spec__", None) if module is not None else importlib.util.find_spec("devices")
    origin = spec.origin if spec is not None else getattr(module, "__file__", None)
    ours = Path(__file__).resolve().parent.parent / "devices" / "__init__.py"
    if origin is not None and Path(origin).resolve() == ours:
        return
    message = f"{origin or 'something'} hides tuner's own package 'devices'"
    mend = "rename that file, or run from another folder"
    if Path(sys.argv[0]).name == "tune":  # the command line cannot catch what happens before it is imported
        if "--json" in sys.argv:
            document = {"error": {"kind": "input", "message": message, "hint": mend}}
            sys.stdout.write(json.dumps(document, indent=2) + "\n")
        else:
            sys.stderr.write(f"error: {message}\n  hint: {mend}\n")
        sys.exit(2)
    raise ShadowedError(f"{message}: {mend}")
