"""What a frozen config must hold, field by field: people edit these files by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

from devices.device import BATCH_KNOB, Setting, WorkloadSpec, knob_value
from devices.errors import InputError
from devices.measurement import STATISTICS, Source
from devices.training import WorkloadInfo

SCHEMA = 1
SOURCES: tuple[Source, ...] = get_args(Source)
_WRITES_ONE = "tune run writes one"


@dataclass(frozen=True)
class FrozenTraining:
    """What training takes from a frozen config.

    Attributes:
        path: The file.
        device: The device the setting was found on.
        source: Where its figures come from.
        setting: The setting, with a `batch_size`: the micro-batch.
        workload: What is trained.
        files_sha256: Digests of the workload's files at the time of the study, by path.
        reference: What the workload was made for, or None where the study did not know.
        effective_batch: Samples of an optimizer step, or None.
        learning_rate: The learning rate that belongs to it, or None.
        seed: Of the study.
        cap_w: The cap in watts the setting was found under, or None.
    """

    path: Path
    device: str
    source: Source
    setting: Setting
    workload: WorkloadSpec
    files_sha256: Mapping[str, str]
    reference: WorkloadInfo | None
    effective_batch: int | None
    learning_rate: float | None
    seed: int
    cap_w: float | None = None

    @property
    def micro_batch(self) -> int:
        """The setting's batch size."""
        return int(self.setting[BATCH_KNOB])


class _Rule(NamedTuple):
    test: Callable[[Any], bool]
    words: str
    nullable: bool = False


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _is_whole(value: Any) -> bool:
    return _is_number(value) and float(value).is_integer()


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_setting(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) > 0 and all(_is_number(number) for number in value.values())


_TEXT = _Rule(_is_text, "a text")
_OBJECT = _Rule(lambda value: isinstance(value, Mapping), "an object")
_POSITIVE = _Rule(lambda value: _is_number(value) and value > 0, "a number above 0")
_COUNT = _Rule(lambda value: _is_whole(value) and value >= 1, "a whole number >= 1")

_RULES: Mapping[str, _Rule] = {
    "device": _TEXT,
    "source": _Rule(lambda value: value in SOURCES, f"one of {', '.join(SOURCES)}"),
    "setting": _Rule(_is_setting, "an object with a number for each knob"),
    "workload": _OBJECT,
    "workload.spec": _TEXT,
    "workload.args": _OBJECT,
    "workload.data": _TEXT._replace(words="a path or null", nullable=True),
    "workload.files_sha256": _Rule(
        lambda value: isinstance(value, Mapping) and all(_is_text(digest) for digest in value.values()),
        "an object with a digest for each file",
    ),
    "reference": _OBJECT._replace(words="an object or null", nullable=True),
    "reference.batch": _COUNT,
    "reference.learning_rate": _POSITIVE,
    "reference.optimizer": _TEXT,
    "effective_batch": _COUNT._replace(nullable=True),
    "accumulation_steps": _COUNT._replace(nullable=True),
    "learning_rate": _POSITIVE._replace(nullable=True),
    "cap": _OBJECT._replace(words="an object or null", nullable=True),
    "cap.watts": _POSITIVE,
    "cap.statistic": _Rule(lambda value: value in STATISTICS, f"one of {', '.join(STATISTICS)}"),
    "seed": _Rule(lambda value: _is_whole(value) and 0 <= value < 2**63, "a whole number >= 0 and < 2**63"),
}
"""Dotted names, holders before what they hold."""


def parse_frozen(text: str, path: Path) -> dict[str, Any]:
    """The frozen config in `text`, which was read from `path`, checked.

    Raises:
        InputError: no JSON, a number JSON does not have (NaN), another schema, or a field that is missing or cannot be.
    """

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"{path} is no frozen config: it holds {constant}", hint="write a number, or null")

    def finite(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else refuse(digits)

    try:
        document: Any = json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON: {error}", hint=_WRITES_ONE) from error
    _check(document, path)
    return dict(document)


def _check(document: Any, path: Path) -> None:
    if not isinstance(document, Mapping):
        raise InputError(f"{path} is no frozen config: it holds no object", hint=_WRITES_ONE)
    _require(document, "schema", "schema", path)
    schema = document["schema"]
    if _is_whole(schema) and schema > SCHEMA:
        raise InputError(f"{path} has schema {schema}; this version knows {SCHEMA}", hint="upgrade taste-tuner")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema != SCHEMA:
        raise _wrong(path, "schema", str(SCHEMA), schema)
    for name, rule in _RULES.items():
        parent, _, key = name.rpartition(".")
        holder = document[parent] if parent else document
        if holder is None:  # a reference or cap that is not known
            continue
        _require(holder, key, name, path)
        if holder[key] is None and rule.nullable:
            continue
        if not rule.test(holder[key]):
            raise _wrong(path, name, rule.words, holder[key])
    if BATCH_KNOB in document["setting"] and not _COUNT.test(document["setting"][BATCH_KNOB]):
        raise _wrong(path, f"setting.{BATCH_KNOB}", _COUNT.words, document["setting"][BATCH_KNOB])


def _require(holder: Mapping[str, Any], key: str, name: str, path: Path) -> None:
    if key not in holder:
        raise InputError(f"{path} is no frozen config: it has no '{name}'", hint=_WRITES_ONE)


def _wrong(path: Path, name: str, words: str, value: Any) -> InputError:
    shown = json.dumps(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return InputError(f"{path}: '{name}' must be {words}, not {shown}", hint=f"mend it, or make another: {_WRITES_ONE}")


def frozen_training(document: Mapping[str, Any], path: Path) -> FrozenTraining:
    """What training takes from a frozen config that `parse_frozen` has checked.

    Raises:
        InputError: no batch size, or accumulation steps that do not fit batch size and effective batch.
    """
    setting = {name: knob_value(value) for name, value in document["setting"].items()}
    if BATCH_KNOB not in setting:
        raise InputError(
            f"{path}: 'setting' has no {BATCH_KNOB}, so it does not say what to train with",
            hint=f'write "{BATCH_KNOB}": N into it',
        )
    micro = int(setting[BATCH_KNOB])
    effective, accumulation = (
        _count_or_none(document["effective_batch"]),
        _count_or_none(document["accumulation_steps"]),
    )
    if effective is not None and accumulation is not None and accumulation != -(-effective // micro):
        raise InputError(
            f"{path}: 'accumulation_steps' {accumulation} does not fit an 'effective_batch' of {effective} "
            f"in micro-batches of {micro}",
            hint=f'"accumulation_steps": {-(-effective // micro)}, or "effective_batch": {accumulation * micro}',
        )
    workload, reference = document["workload"], document["reference"]
    return FrozenTraining(
        path=path,
        device=document["device"],
        source=document["source"],
        setting=setting,
        workload=WorkloadSpec(workload["spec"], dict(workload["args"]), workload["data"]),
        files_sha256=dict(workload["files_sha256"]),
        reference=reference
        and WorkloadInfo(int(reference["batch"]), float(reference["learning_rate"]), reference["optimizer"]),
        effective_batch=effective,
        learning_rate=document["learning_rate"] and float(document["learning_rate"]),
        seed=int(document["seed"]),
        cap_w=document["cap"] and float(document["cap"]["watts"]),
    )


def _count_or_none(value: float | None) -> int | None:
    return None if value is None else int(value)
