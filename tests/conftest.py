"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def data_folder() -> Path:
    """The folder of public traces; the test is skipped where it is absent."""
    folder = Path(os.environ.get("TUNER_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no public traces here: TUNER_DATA names no folder")
    return folder


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the user's store or leaves files behind, and lines are as long as they are."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)
