"""Studies and frozen configs that exist already: looked up, summed up, exported."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from devices.cost import workload_info
from devices.device import DeviceInfo, Knob, WorkloadSpec
from devices.errors import UnsupportedError
from devices.measurement import Source
from devices.profile import Profile, profile_text
from tuner.frozen import freeze, read_frozen
from tuner.frozen_check import FrozenTraining, frozen_training
from tuner.goal import Cap, find_goal
from tuner.outcome import Outcome, assess
from tuner.problem import Problem
from tuner.record import profile_of
from tuner.space import Space
from tuner.store import Store, StoredStudy, no_study


def study_document(store: Store, name: str) -> dict[str, Any]:
    """The document of a study: what it ended with, or where it stands.

    Raises:
        InputError: no such study.
    """
    study = _load(store, name)
    ended = ended_document(study)
    return {**ended, "study": study.name} if ended else _outcome(study).to_json()


def study_rows(store: Store) -> list[dict[str, Any]]:
    """One row a study, the oldest first."""
    rows = []
    for name in store.names():
        study = _load(store, name)
        specification, ended = study.specification, ended_document(study) or {}
        rows.append(
            {
                "study": name,
                "device": specification["device"],
                "source": specification["source"],
                "goal": specification["goal"],
                "cap": specification["cap"],
                "bursts": sum(max(trial.attempts, 1) for trial in study.trials),
                "created_at": study.created_at,
                "stopped": ended.get("stopped"),
                "recommended": ended.get("recommended"),
            }
        )
    return rows


def export_text(what: str, form: str, open_store: Callable[[], Store]) -> str:
    """A frozen config (where `what` is a file) or a study as JSON, YAML or CSV.

    Raises:
        InputError: neither a file nor a study, or a frozen config as CSV.
    """
    path = Path(what)
    if path.is_file():
        if form == "csv":
            raise UnsupportedError("a frozen config is no table", hint="--format json or yaml")
        return format_document(read_frozen(path), form)
    store = open_store()
    if form == "csv":
        return profile_text(study_record(_load(store, what)))
    return format_document(study_document(store, what), form)


def recommended_config(what: str, open_store: Callable[[], Store]) -> tuple[FrozenTraining | None, tuple[str, ...]]:
    """A frozen config (where `what` is a file), or that of a study's recommended setting (None where it has none), and
    sentences for the user.

    Raises:
        InputError: neither a file nor a study, or a file that is no frozen config.
    """
    path = Path(what)
    if path.is_file():
        return frozen_training(read_frozen(path), path), ()
    study = _load(open_store(), what)
    outcome = _outcome(study)
    if outcome.verdict.recommended is None:
        return None, (f"the study '{what}' recommends no setting: tune show {shlex.quote(what)}",)
    notes = [] if ended_document(study) else [f"the study '{what}' is not finished: this is its answer so far"]
    workload = WorkloadSpec(**_workload(study))
    reference = _reference(workload, outcome.info.source)
    if reference is None:
        notes.append(f"the study '{what}' does not hold the batch size its workload was made for")
    return frozen_training(freeze(outcome, workload, reference), path), tuple(notes)


def _reference(workload: WorkloadSpec, source: Source) -> dict[str, Any] | None:
    """What a named workload was made for; those of users are on the board, and recorded ones anywhere."""
    if source == "replayed" or ":" in workload.spec:
        return None
    return workload_info(workload).to_reference()


def study_record(study: StoredStudy) -> Profile:
    """What a study measured, as a recorded profile.

    Raises:
        ProfileError: no burst was made.
    """
    return profile_of(_outcome(study), WorkloadSpec(**_workload(study)))


def _workload(study: StoredStudy) -> dict[str, Any]:
    found = dict(study.specification["workload"])
    found.pop("files_sha256", None)
    return found


def ended_document(study: StoredStudy) -> Mapping[str, Any] | None:
    """The document the study ended with, unless it went on after that."""
    if study.outcome is None or len(study.outcome["trials"]) != len(study.trials):
        return None
    return None if any(trial.pending for trial in study.trials) else study.outcome


def _load(store: Store, name: str) -> StoredStudy:
    study = store.load(name)
    if study is None:
        raise no_study(name)
    return study


def _outcome(study: StoredStudy) -> Outcome:
    """A study judged from the store alone, without its device."""
    specification = study.specification
    knobs = tuple(Knob(name, tuple(values)) for name, values in specification["space"].items())
    cap = Cap(**specification["cap"]) if specification["cap"] else None
    info = DeviceInfo(
        name=specification["device"],
        source=specification["source"],
        knobs=knobs,
        throughput_unit=specification["throughput_unit"],
        held_fixed=specification["held_fixed"],
        **specification["about"],
    )
    problem = Problem(Space.of(info), find_goal(specification["goal"]), cap, specification["seed"])
    return assess(study.name, info, problem, study.trials, stopped=None)


def format_document(document: Mapping[str, Any], form: str) -> str:
    """A document as `json` or `yaml`."""
    if form == "yaml":
        return "\n".join(_yaml(document, 0)) + "\n"
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _yaml(value: Any, indent: int) -> list[str]:
    """Block-style YAML; scalars are written as JSON, which YAML 1.2 contains."""
    pad = "  " * indent
    if isinstance(value, Mapping) and value:
        return [line for key, item in value.items() for line in _yaml_entry(f"{pad}{json.dumps(key)}:", item, indent)]
    if isinstance(value, list | tuple) and value:
        return [line for item in value for line in _yaml_entry(f"{pad}-", item, indent)]
    return [pad + _yaml_scalar(value)]


def _yaml_entry(head: str, item: Any, indent: int) -> list[str]:
    if isinstance(item, Mapping | list | tuple) and item:
        return [head, *_yaml(item, indent + 1)]
    return [f"{head} {_yaml_scalar(item)}"]


def _yaml_scalar(value: Any) -> str:
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # readers of YAML 1.1 take 1e-07 for a text
    return text
