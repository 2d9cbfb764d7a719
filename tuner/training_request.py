"""What a user asks of `tune train`, and what can be wrong with that before anything is read."""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devices.errors import InputError
from devices.training import Recipe

RESULT_FILE = "result.json"
AUTO = "auto"  # learning rate rule: that of the optimizer


@dataclass(frozen=True)
class TrainRequest:
    """What the user asked for; the fields are the argument and the options of `tune train`."""

    frozen: Path
    device: str | None = None
    python: str | None = None
    data: str | None = None
    effective_batch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seed: int | None = None
    lr_scaling: str = AUTO
    decay: str = Recipe.decay
    clip_norm: float | None = None
    precision: str = Recipe.precision
    batch_norm: str = Recipe.batch_norm
    checkpoint_dir: Path = Path("checkpoints")
    resume: bool = False
    out: Path | None = None
    accept_source: bool = False

    def command(self, **changes: Any) -> str:
        """The command line that asks for this, with some options changed, ready for a shell."""
        words = ["tune", "train", str(self.frozen)]
        options = vars(replace(self, **changes))
        defaults = vars(TrainRequest(self.frozen))
        for name, value in options.items():
            if name == "frozen" or value == defaults[name]:
                continue
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join(words)


def check_request(request: TrainRequest) -> None:
    """What can be wrong before anything is read.

    Raises:
        InputError: a number too small, or options that do not go together, or folders that cannot be written.
    """
    numbers = {"effective-batch": (request.effective_batch, 1), "epochs": (request.epochs, 1)}
    numbers |= {"steps": (request.steps, 1), "seed": (request.seed, 0)}
    for option, (value, least) in numbers.items():
        if value is not None and value < least:
            raise InputError(f"--{option} must be at least {least}, not {value}", hint=f"--{option} N")
    if request.clip_norm is not None and not 0 < request.clip_norm < math.inf:
        raise InputError(f"--clip-norm must be a number above 0, not {request.clip_norm:g}", hint="--clip-norm 1")
    if request.epochs is not None and request.steps is not None:
        raise InputError("--epochs and --steps both say when training ends", hint="leave one of them out")
    _check_folders(request)


def _check_folders(request: TrainRequest) -> None:
    """Check before hours of training that its folders can be made and written.

    Raises:
        InputError: they cannot, or the result would overwrite the frozen config.
    """
    for option, folder in (("--checkpoint-dir", request.checkpoint_dir), ("--out", request.out)):
        if folder is None:
            continue
        try:
            there = _nearest(folder.absolute())
        except OSError as error:  # a name too long, a folder that may not be entered
            raise InputError(f"{option} {folder}: {error.strerror or error}", hint=f"{option} DIR") from error
        if not there.is_dir():
            raise InputError(f"{option} {folder}: {there} is no folder", hint=f"{option} DIR")
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"{option} {folder}: no permission in {there}", hint="name a folder of yours")
    if request.out is not None and (request.out / RESULT_FILE).resolve() == request.frozen.resolve():
        raise InputError(f"--out {request.out} would overwrite {request.frozen}", hint="another folder for --out")


def _nearest(path: Path) -> Path:
    """`path`, or the nearest above it that exists."""
    while not path.exists() and not path.is_symlink():
        path = path.parent
    return path
