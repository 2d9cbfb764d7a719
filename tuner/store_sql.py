"""The Store in a database, through SQLAlchemy: SQLite by default, any URL it understands otherwise."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import platformdirs
import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from devices.errors import InputError, StoreError, StudyInUseError
from devices.measurement import Measurement
from tuner.store import SCHEMA_VERSION, Store, StoredStudy, archive_name, no_study, now
from tuner.trial import Role, Trial, TrialState

_metadata = sa.MetaData()
_meta = sa.Table("tuner_meta", _metadata, sa.Column("schema_version", sa.Integer, nullable=False))
_studies = sa.Table(
    "tuner_study",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255), unique=True, nullable=False),
    sa.Column("specification", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("strategy_state", sa.Text),
    sa.Column("outcome", sa.Text),
)
_trials = sa.Table(
    "tuner_trial",
    _metadata,
    sa.Column("study_id", sa.ForeignKey("tuner_study.id"), primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("setting", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("measurement", sa.Text),
)


def default_location() -> str:
    """Where the user's studies live: `TUNER_STORE`, else `studies.db` in the user's data folder."""
    return os.environ.get("TUNER_STORE") or str(Path(platformdirs.user_data_dir("tuner"), "studies.db"))


def is_sqlite(url: sa.URL) -> bool:
    """Whether `url` names a SQLite database."""
    return url.get_backend_name() == "sqlite"


class SQLStore(Store):
    """Studies in a database.

    Args:
        location: A database URL, or the path of a SQLite file.
        create: Whether a SQLite file that is absent is made, with its folder.

    Raises:
        InputError: a URL SQLAlchemy does not understand, or no such file.
        StoreError: it cannot be opened, or was written by a newer version.
    """

    def __init__(self, location: str, *, create: bool = True) -> None:
        self._location = location
        self._path: Path | None = None
        if "://" not in location:
            self._path = Path(location).expanduser().resolve()
            url = sa.URL.create("sqlite", database=str(self._path))
        else:
            try:
                url = sa.make_url(location)
            except ArgumentError:
                raise InputError(f"'{location}' is no store", hint="a file path, or sqlite:///PATH") from None
            if is_sqlite(url) and url.database and not url.database.startswith((":memory:", "file:")):
                self._path = Path(url.database).resolve()
        if self._path is not None and not create and not self._path.exists():
            raise InputError(f"there is no store {self._path}", hint="tune run makes one")
        self._in_memory = is_sqlite(url) and url.database in (None, "", ":memory:")
        try:
            # One connection shared by all threads where the database lives in it; otherwise one per call, so that no
            # forked process inherits an open one.
            self._engine = sa.create_engine(url, poolclass=sa.StaticPool if self._in_memory else sa.NullPool)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise InputError(
                f"no driver for the store '{location}': {error}", hint="a file path always works"
            ) from None
        with self._transaction() as connection:
            self._open_schema(connection)

    def _open_schema(self, connection: sa.Connection) -> None:
        _metadata.create_all(connection)
        version = connection.execute(sa.select(_meta.c.schema_version)).scalar()
        if version is None:
            connection.execute(_meta.insert().values(schema_version=SCHEMA_VERSION))
        elif version > SCHEMA_VERSION:
            raise StoreError(
                f"the store {self._location} has schema {version}; this version knows {SCHEMA_VERSION}",
                hint="upgrade taste-tuner, or name another --store",
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            cause = getattr(error, "orig", None) or error
            raise StoreError(
                f"the store {self._location} cannot be used: {cause}",
                hint="name another with --store FILE or TUNER_STORE",
                path=str(self._path or self._location),
            ) from error

    def names(self) -> list[str]:
        with self._transaction() as connection:
            return list(connection.execute(sa.select(_studies.c.name).order_by(_studies.c.id)).scalars())

    def load(self, name: str) -> StoredStudy | None:
        with self._transaction() as connection:
            return self._load(connection, name)

    @staticmethod
    def _load(connection: sa.Connection, name: str) -> StoredStudy | None:
        row = connection.execute(sa.select(_studies).where(_studies.c.name == name)).one_or_none()
        if row is None:
            return None
        rows = connection.execute(sa.select(_trials).where(_trials.c.study_id == row.id).order_by(_trials.c.index))
        return StoredStudy(
            name=row.name,
            specification=json.loads(row.specification),
            created_at=row.created_at,
            trials=tuple(_trial_of(trial_row) for trial_row in rows),
            strategy_state=row.strategy_state,
            outcome=json.loads(row.outcome) if row.outcome else None,
        )

    def create(self, name: str, specification: Mapping[str, Any]) -> StoredStudy:
        with self._transaction() as connection:
            if self._load(connection, name) is not None:
                raise InputError(f"a study '{name}' exists", hint="--fresh starts anew")
            created_at = now()
            connection.execute(
                _studies.insert().values(
                    name=name, specification=json.dumps(specification, allow_nan=False), created_at=created_at
                )
            )
            return StoredStudy(name, json.loads(json.dumps(specification)), created_at)

    def archive(self, name: str) -> str:
        with self._transaction() as connection:
            study = self._load(connection, name)
            if study is None:
                raise no_study(name)
            new = archive_name(study, list(connection.execute(sa.select(_studies.c.name)).scalars()))
            connection.execute(_studies.update().where(_studies.c.name == name).values(name=new))
            return new

    def ask(self, name: str, trials: Sequence[Trial], strategy_state: str | None) -> None:
        with self._transaction() as connection:
            study_id = self._id(connection, name)
            count = sa.select(sa.func.count()).select_from(_trials).where(_trials.c.study_id == study_id)
            stored = connection.execute(count).scalar_one()
            if [trial.index for trial in trials] != list(range(stored, stored + len(trials))):
                raise InputError(f"study '{name}' has {stored} trials; the next index is {stored}")
            for trial in trials:
                connection.execute(_trials.insert().values(study_id=study_id, **_row_of(trial)))
            connection.execute(_studies.update().where(_studies.c.id == study_id).values(strategy_state=strategy_state))

    def update(self, name: str, trial: Trial) -> None:
        with self._transaction() as connection:
            study_id = self._id(connection, name)
            result = connection.execute(
                _trials.update()
                .where(_trials.c.study_id == study_id, _trials.c.index == trial.index)
                .values(**_row_of(trial))
            )
            if result.rowcount == 0:
                raise InputError(f"study '{name}' has no trial {trial.index}")

    def finish(self, name: str, outcome: Mapping[str, Any]) -> None:
        with self._transaction() as connection:
            study_id = self._id(connection, name)
            text = json.dumps(outcome, allow_nan=False)
            connection.execute(_studies.update().where(_studies.c.id == study_id).values(outcome=text))

    @staticmethod
    def _id(connection: sa.Connection, name: str) -> int:
        study_id = connection.execute(sa.select(_studies.c.id).where(_studies.c.name == name)).scalar()
        if study_id is None:
            raise no_study(name)
        return int(study_id)

    def lock(self, name: str) -> AbstractContextManager[Any]:
        return self._locked(name)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        if self._in_memory:
            yield
            return
        # A file lock, since the system frees it however its process ends. Databases on another machine are locked
        # against other processes of this one only.
        digest = hashlib.sha256(f"{self._path or self._location}\n{name}".encode()).hexdigest()[:16]
        folder = Path(f"{self._path}.locks") if self._path else Path(platformdirs.user_data_dir("tuner"), "locks")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / f"{digest}.lock", timeout=0)
            lock.acquire()
        except Timeout:
            raise StudyInUseError(
                f"the study '{name}' is in use by another process",
                hint="wait for it, or give this run a name of its own with --study NAME",
            ) from None
        except OSError as error:
            raise StoreError(
                f"the store {self._location} cannot be locked: {error}", hint="name another with --store FILE"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def close(self) -> None:
        self._engine.dispose()


def _row_of(trial: Trial) -> dict[str, Any]:
    return {
        "index": trial.index,
        "setting": json.dumps(dict(trial.setting)),
        "state": trial.state.value,
        "role": trial.role.value,
        "attempts": trial.attempts,
        "measurement": json.dumps(trial.measurement.to_json(), allow_nan=False) if trial.measurement else None,
    }


def _trial_of(row: Any) -> Trial:
    return Trial(
        index=row.index,
        setting=json.loads(row.setting),
        state=TrialState(row.state),
        role=Role(row.role),
        attempts=row.attempts,
        measurement=Measurement.from_json(json.loads(row.measurement)) if row.measurement else None,
    )
