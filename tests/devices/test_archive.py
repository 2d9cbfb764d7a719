"""The agent's archive on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices import archive
from devices.errors import DeviceError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    return tmp_path / "cache" / "tuner"


def test_it_is_written_once_and_mended(cache: Path) -> None:
    path = archive.archive_path()
    assert path.parent == cache
    before = path.stat().st_mtime_ns
    assert archive.archive_path() == path
    assert path.stat().st_mtime_ns == before
    path.write_bytes(b"half")
    assert archive.archive_path().read_bytes() == archive.build_archive()


def test_a_folder_that_others_may_write_is_not_used(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert archive.archive_path().is_relative_to(tmp_path / "tmp")
    (tmp_path / "tmp").glob("tuner-*").__next__().chmod(0o777)
    with pytest.raises(DeviceError, match="can be written by others"):
        archive.archive_path()


def test_nothing_half_written_is_left(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DeviceError, match="No space left"):
        archive.archive_path()
    assert list(cache.iterdir()) == []
