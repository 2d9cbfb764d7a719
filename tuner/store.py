"""The Store seam: studies and trials on disk, each as soon as it exists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devices.errors import InputError, StoreError
from tuner.trial import Trial

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class StoredStudy:
    """A study as the store knows it.

    Attributes:
        name: Unique in the store.
        specification: What must match to resume it.
        created_at: ISO 8601, UTC.
        trials: In the order of their index, without gaps.
        strategy_state: What the strategy's latest suggestion returned.
        outcome: The document of `tune run --json` when the study last ended, else None.
    """

    name: str
    specification: Mapping[str, Any]
    created_at: str
    trials: tuple[Trial, ...] = ()
    strategy_state: str | None = None
    outcome: Mapping[str, Any] | None = field(default=None)


class Store(ABC):
    """Where studies live.

    Every call is one transaction: it is on disk when it returns, or has changed nothing. A process that holds a study's
    `lock` is its only writer; reading needs no lock. What is returned belongs to the caller and never changes.

    Every method raises `StoreError` when the storage cannot be read or written (read-only, full, no database, a newer
    schema).
    """

    @abstractmethod
    def names(self) -> list[str]:
        """Names of all studies, the oldest first."""

    @abstractmethod
    def load(self, name: str) -> StoredStudy | None:
        """The study of that name, or None."""

    @abstractmethod
    def create(self, name: str, specification: Mapping[str, Any]) -> StoredStudy:
        """A new study without trials.

        Raises:
            InputError: a study of that name exists.
        """

    @abstractmethod
    def archive(self, name: str) -> str:
        """Rename a study, so that its name is free and nothing is lost.

        Returns:
            The new name: the old one with the time it was created.

        Raises:
            InputError: no such study.
        """

    @abstractmethod
    def ask(self, name: str, trials: Sequence[Trial], strategy_state: str | None) -> None:
        """Add trials, with the strategy's state, in one transaction. Their indices follow those stored.

        Raises:
            InputError: no such study, or an index that is stored or leaves a gap.
        """

    @abstractmethod
    def update(self, name: str, trial: Trial) -> None:
        """Replace the stored trial of that index.

        Raises:
            InputError: no such study or trial.
        """

    @abstractmethod
    def finish(self, name: str, outcome: Mapping[str, Any]) -> None:
        """Keep the document the study ended with; a later end replaces it.

        Raises:
            InputError: no such study.
        """

    @abstractmethod
    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Hold the study for one process; released on leaving, and by the system when the process dies.

        Raises:
            StudyInUseError: on entering, when another holds it.
        """

    def close(self) -> None:  # noqa: B027
        """Release everything; may be called again."""


def archive_name(study: StoredStudy, taken: Sequence[str]) -> str:
    """The name under which `study` is kept when its own is needed: with its time of creation, made unique."""
    name = base = f"{study.name}@{study.created_at}"
    number = 1
    while name in taken:
        number += 1
        name = f"{base}.{number}"
    return name


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def no_study(name: str) -> InputError:
    """The error for a study that the store does not hold."""
    return InputError(f"there is no study '{name}'", hint="tune list shows the studies")


class MemoryStore(Store):
    """Studies in this process's memory: for notebooks, comparisons and tests."""

    def __init__(self) -> None:
        self._studies: dict[str, StoredStudy] = {}

    def _get(self, name: str) -> StoredStudy:
        if name not in self._studies:
            raise no_study(name)
        return self._studies[name]

    def names(self) -> list[str]:
        return list(self._studies)

    def load(self, name: str) -> StoredStudy | None:
        return deepcopy(self._studies.get(name))

    def create(self, name: str, specification: Mapping[str, Any]) -> StoredStudy:
        if name in self._studies:
            raise InputError(f"a study '{name}' exists", hint="--fresh starts anew")
        self._studies[name] = StoredStudy(name, deepcopy(dict(specification)), now())
        return deepcopy(self._studies[name])

    def archive(self, name: str) -> str:
        study = self._get(name)
        new = archive_name(study, self.names())
        del self._studies[name]
        self._studies[new] = replace(study, name=new)
        return new

    def ask(self, name: str, trials: Sequence[Trial], strategy_state: str | None) -> None:
        study = self._get(name)
        if [trial.index for trial in trials] != list(range(len(study.trials), len(study.trials) + len(trials))):
            raise InputError(f"study '{name}' has {len(study.trials)} trials; the next index is {len(study.trials)}")
        self._studies[name] = replace(
            study, trials=(*study.trials, *deepcopy(list(trials))), strategy_state=strategy_state
        )

    def update(self, name: str, trial: Trial) -> None:
        study = self._get(name)
        if not 0 <= trial.index < len(study.trials):
            raise InputError(f"study '{name}' has no trial {trial.index}")
        trials = list(study.trials)
        trials[trial.index] = deepcopy(trial)
        self._studies[name] = replace(study, trials=tuple(trials))

    def finish(self, name: str, outcome: Mapping[str, Any]) -> None:
        self._studies[name] = replace(self._get(name), outcome=deepcopy(dict(outcome)))

    def lock(self, name: str) -> AbstractContextManager[Any]:
        return nullcontext()


def open_store(location: str | None = None, *, create: bool = True) -> Store:
    """The store at `location`: a database URL, the path of a SQLite file, or None for the user's own.

    The user's own is `TUNER_STORE` where that is set, else SQLite in the user's data folder. Without `create` a file
    that is absent is refused, and the user's own reads as empty until something is written to it.

    Raises:
        InputError: a URL nobody understands, or no such file.
        StoreError: it cannot be opened.
    """
    from tuner.store_sql import SQLStore, default_location  # SQLAlchemy is slow to import

    own = default_location()
    if location is None and not create and "://" not in own and not Path(own).exists():
        return MemoryStore()
    return SQLStore(location or own, create=create)


__all__ = ["MemoryStore", "Store", "StoreError", "StoredStudy", "open_store"]
