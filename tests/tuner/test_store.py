from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from devices.errors import InputError, StoreError, StudyInUseError
from tuner.store import MemoryStore, Store, open_store
from tuner.store_sql import SQLStore
from tuner.testing import SharedStoreContract, StoreContract, sample_trial


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestSQLiteInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return SQLStore("sqlite://")


class TestSQLiteFile(SharedStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return SQLStore(str(tmp_path / "new folder" / "studies.db"))

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: SQLStore(f"sqlite:///{tmp_path}/new folder/studies.db")


def test_the_location_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "mine.db"))
    open_store().create("a", {})
    assert (tmp_path / "mine.db").is_file()


def test_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database\n" * 100)
    with pytest.raises(StoreError, match=r"notes\.txt.*not a database") as error:
        SQLStore(str(path))
    assert error.value.hint
    assert path.read_text().startswith("these are my notes")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open database file"):
        SQLStore(str(tmp_path))


def test_a_url_nobody_understands() -> None:
    with pytest.raises(InputError, match="no store"):
        SQLStore("://")
    with pytest.raises(InputError, match="no driver"):
        SQLStore("mongodb://host/studies")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    SQLStore(str(path)).create("a", {})
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tuner_meta SET schema_version = 99")
    with pytest.raises(StoreError, match="schema 99"):
        SQLStore(str(path))


def test_a_read_only_database(tmp_path: Path) -> None:
    SQLStore(str(tmp_path / "studies.db")).create("a", {})
    store = SQLStore(f"sqlite:///file:{tmp_path}/studies.db?mode=ro&uri=true")
    assert store.names() == ["a"]
    with pytest.raises(StoreError, match="readonly") as error:
        store.ask("a", [sample_trial(0)], None)
    assert "--store" in (error.value.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == ["studies.db"]


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    store = SQLStore(str(path))
    store.create("a", {})
    pages = sqlite3.connect(path).execute("PRAGMA page_count").fetchone()[0]

    import sqlalchemy as sa

    @sa.event.listens_for(store._engine, "connect")
    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError, match="full"):
        store.ask("a", [sample_trial(0)], "x" * 100_000)
    loaded = store.load("a")
    assert loaded is not None
    assert loaded.trials == ()


def test_every_spelling_of_a_path_is_one_store(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "studies.db")
    store = SQLStore(str(tmp_path / "studies.db"))
    with store.lock("a"):
        for spelling in (f"{tmp_path}/sub/../studies.db", f"{tmp_path}/link.db", f"sqlite:///{tmp_path}/./studies.db"):
            with pytest.raises(StudyInUseError), SQLStore(spelling).lock("a"):
                pass


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    location = str(tmp_path / "studies.db")
    code = (
        "import os, signal, sys\nfrom tuner.store_sql import SQLStore\n"
        "SQLStore(sys.argv[1]).lock('a').__enter__()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, location], check=False)
    assert done.returncode == -9
    with SQLStore(location).lock("a"):
        pass
