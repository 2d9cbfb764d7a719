"""A frozen config as the arguments of other people's loops: Hugging Face, Lightning, Accelerate, environment variables.

All are for one process on one device. What they do with an effective batch differs where a window is not full, or where
its micro-batches count unequally (padded texts): Hugging Face's Trainer averages the loss over all items of a window
(`num_items_in_batch`), as `tune train` does; Lightning and Accelerate average the means of micro-batches.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from devices.device import BATCH_KNOB
from devices.errors import UnsupportedError
from tuner.batches import Batches, whole_batches
from tuner.frozen_check import FrozenTraining
from tuner.library import format_document, recommended_config
from tuner.store import Store
from tuner.training import origin

ENV = "env"
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Exported:
    """What is printed.

    Attributes:
        text: For standard output.
        notes: Sentences for the user.
        complete: Whether there was something to export; False: a study that recommends nothing.
    """

    text: str
    notes: tuple[str, ...]
    complete: bool = True


def exported(what: str, library: str, form: str | None, open_store: Callable[[], Store]) -> Exported:
    """The arguments for one of `LIBRARIES`, from a frozen config (where `what` is a file) or a study.

    Args:
        what: The file, or the study's name.
        library: Whose arguments.
        form: `json` or `yaml`; None: as is usual for that library.
        open_store: Opens the store of the studies.

    Raises:
        InputError: neither a file nor a study, a file that is no frozen config, or `csv`.
    """
    if form == "csv":
        raise UnsupportedError("arguments are no table", hint="--format json or yaml")
    config, notes = recommended_config(what, open_store)
    if config is None:
        empty = "" if form is None else format_document({"recommended": None}, form)
        return Exported(empty, notes, complete=False)
    arguments, more = export_arguments(config, library)
    lines = library == ENV and form is None
    return Exported(env_lines(arguments) if lines else format_document(arguments, form or "json"), (*notes, *more))


def export_arguments(config: FrozenTraining, library: str) -> tuple[Arguments, tuple[str, ...]]:
    """The arguments for one of `LIBRARIES`, and what the user should know of them.

    Raises:
        InputError: a learning rate that cannot be.
    """
    batches = whole_batches(config)
    notes = [] if config.source == "measured" else [f"the figures {origin(config)}"]
    return LIBRARIES[library](config, batches), (*notes, *batches.notes)


def env_lines(arguments: Mapping[str, Any]) -> str:
    """Variables for `set -a; . ./FILE`, `export $(...)` and `env -S "$(...)"`: none holds a space or a quote."""
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in arguments.items())


def _huggingface(config: FrozenTraining, batches: Batches) -> Arguments:
    """Names of `TrainingArguments`, which takes no others: where the figures come from has no place here."""
    return {
        "per_device_train_batch_size": batches.micro_batch,
        "gradient_accumulation_steps": batches.accumulation_steps,
        **_learning_rate(batches),
    }


def _lightning(config: FrozenTraining, batches: Batches) -> Arguments:
    """`Trainer(**found["trainer"])`; the rest is for the data loader and `configure_optimizers`."""
    return {"trainer": {"accumulate_grad_batches": batches.accumulation_steps}, **_loader(config, batches)}


def _accelerate(config: FrozenTraining, batches: Batches) -> Arguments:
    """`Accelerator(**found["accelerator"])`; the rest is for the data loader and the optimizer."""
    return {"accelerator": {"gradient_accumulation_steps": batches.accumulation_steps}, **_loader(config, batches)}


def _env(config: FrozenTraining, batches: Batches) -> Arguments:
    found: Arguments = {
        "micro_batch": batches.micro_batch,
        "accumulation_steps": batches.accumulation_steps,
        "effective_batch": batches.effective_batch,
        **_learning_rate(batches),
        "source": config.source,
        **({"cap_w": config.cap_w} if config.cap_w is not None else {}),
    }
    for name, value in config.setting.items():
        if name != BATCH_KNOB:
            found[f"knob_{re.sub('[^A-Za-z0-9]+', '_', name)}"] = value
    return {f"TUNER_{name.upper()}": value for name, value in found.items()}


def _loader(config: FrozenTraining, batches: Batches) -> Arguments:
    return {"batch_size": batches.micro_batch, **_learning_rate(batches), "source": config.source}


def _learning_rate(batches: Batches) -> Arguments:
    return {} if batches.learning_rate is None else {"learning_rate": batches.learning_rate}


LIBRARIES: Mapping[str, Callable[[FrozenTraining, Batches], Arguments]] = {
    "huggingface": _huggingface,
    "lightning": _lightning,
    "accelerate": _accelerate,
    ENV: _env,
}
"""What writes the arguments of each."""
