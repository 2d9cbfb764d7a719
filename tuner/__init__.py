"""Finds the GPU frequency and the batch size that train fastest under a power cap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner._guard import require_own_devices

if TYPE_CHECKING:
    from tuner.applied import apply
    from tuner.study import Study

__all__ = ["Study", "apply"]

require_own_devices()


def __getattr__(name: str) -> Any:
    if name == "Study":  # lazily: the command line must start without numpy
        from tuner.study import Study

        return Study
    if name == "apply":
        from tuner.applied import apply

        return apply
    raise AttributeError(f"module 'tuner' has no attribute '{name}'")
