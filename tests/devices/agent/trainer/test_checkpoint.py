"""The folder of checkpoints: whole files, one training at a time, and a disk that fills up."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from devices.agent.trainer.checkpoint import Checkpoints, load

from .tiny import Run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def state(step: int, size: int = 10) -> dict[str, Any]:
    return {"step": step, "weights": torch.full((size,), float(step))}


def test_the_last_two_are_kept_by_number(tmp_path: Path) -> None:
    with Checkpoints(str(tmp_path), 0) as folder:
        for step in (8, 9, 10, 100):
            assert folder.write(state(step)) == str(tmp_path / f"step-{step}.pt")
        assert names(tmp_path) == ["step-10.pt", "step-100.pt"]
        path, found, notes = folder.latest()
    assert (path, notes) == (str(tmp_path / "step-100.pt"), [])
    assert found is not None
    assert torch.equal(found["weights"], state(100)["weights"])


def test_a_file_is_complete_when_it_appears(tmp_path: Path) -> None:
    """Whoever looks, while checkpoints are written and rewritten, finds whole ones."""
    done = threading.Event()
    seen = set()

    def look() -> None:
        while not done.is_set():
            for path in tmp_path.glob("step-*.pt"):
                try:
                    seen.add(load(str(path))["step"])
                except FileNotFoundError:  # an old one that was removed between the two
                    continue

    looker = threading.Thread(target=look)
    looker.start()
    try:
        with Checkpoints(str(tmp_path), 0) as folder:
            until = time.monotonic() + 0.5
            step = 0
            while time.monotonic() < until or not seen:
                folder.write(state(step, 100_000))
                folder.write(state(step, 100_000))
                step += 1
    finally:
        done.set()
        looker.join()
    assert seen


def test_what_a_killed_training_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "step-3.pt.partial").write_bytes(b"half")
    (tmp_path / "mine.partial").write_bytes(b"")
    Checkpoints(str(tmp_path), 0).close()
    assert names(tmp_path) == ["mine.partial"]


def test_a_checkpoint_of_another_version_is_none(tmp_path: Path) -> None:
    torch.save({"format": 99}, tmp_path / "step-1.pt")
    with Checkpoints(str(tmp_path), 0) as folder, pytest.raises(ValueError, match="not a checkpoint of this version"):
        folder.latest()


def test_a_folder_is_held_by_one_training(tmp_path: Path) -> None:
    with Checkpoints(str(tmp_path), 0) as folder:
        with pytest.raises(ValueError, match=f"another training holds {tmp_path}"):
            Checkpoints(str(tmp_path), 0)
        with pytest.raises(ValueError, match="another training"):
            Run(tmp_path)()
        threading.Timer(0.3, folder.close).start()
        began = time.monotonic()
        Checkpoints(str(tmp_path), 10).close()
        assert time.monotonic() - began < 5


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(ValueError, match="another training"):
            Checkpoints(str(tmp_path), 0.1)
        holder.kill()
        Checkpoints(str(tmp_path), 5).close()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_does_not_fit_leaves_the_earlier_ones(tmp_path: Path) -> None:
    with Checkpoints(str(tmp_path), 0) as folder:
        folder.write(state(1))
        folder.write(state(2))
        said = rf"the disk is full: a checkpoint takes 4\.0 MB in {tmp_path}, and .* MB are free; make room, or .*-dir"
        with files_of_at_most(100_000), pytest.raises(ValueError, match=said):
            folder.write(state(3, 1_000_000))
        assert names(tmp_path) == ["step-1.pt", "step-2.pt"]
        assert folder.latest()[0] == str(tmp_path / "step-2.pt")


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "a checkpoint cannot be written to")]
)
def test_a_disk_that_fails_when_it_is_synced(
    number: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with Checkpoints(str(tmp_path), 0) as folder:
        folder.write(state(1))
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(ValueError, match=said):
            folder.write(state(2))
        assert names(tmp_path) == ["step-1.pt"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file/folder cannot be written: Not a directory; .*--checkpoint-dir"):
        Checkpoints(str(tmp_path / "file" / "folder"), 0)
