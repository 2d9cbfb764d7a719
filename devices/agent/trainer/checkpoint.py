"""Checkpoints: files `step-N.pt` in a folder that one training holds at a time."""

import errno
import fcntl
import inspect
import os
import re
import shutil
import time
import zipfile
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

import torch

FORMAT = 1  # of the files' content; another one is not read
KEPT = 2
NAME = re.compile(r"step-(\d+)\.pt$")
PARTIAL = ".partial"
POLL_S = 0.05  # between two looks at a lock that is held
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

State = Dict[str, Any]


class StorageError(ValueError):
    """Something could not be written: a full disk, a folder that has gone."""


class Checkpoints:
    """A folder of checkpoints, locked against other trainings until `close` or the end of the process.

    Args:
        folder: Made where it does not exist.
        wait_s: How long to wait for another training that holds it.

    Raises:
        ValueError: the folder cannot be written, or another training holds it.
    """

    def __init__(self, folder: str, wait_s: float) -> None:
        self.folder = os.path.abspath(os.path.expanduser(folder))
        make_folder(self.folder, "--checkpoint-dir")
        self._lock = _lock(self.folder, wait_s)
        for name in os.listdir(self.folder):  # of a training that was killed
            if name.startswith("step-") and name.endswith(PARTIAL):
                os.remove(os.path.join(self.folder, name))

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder free; may be called again."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def paths(self) -> List[str]:
        """The checkpoints that are there, of the least steps first."""
        found = [(int(match.group(1)), match.group(0)) for match in map(NAME.match, os.listdir(self.folder)) if match]
        return [os.path.join(self.folder, name) for _, name in sorted(found)]

    def latest(self) -> Tuple[Optional[str], Optional[State], List[str]]:
        """The last checkpoint that can be read: its path, its content and sentences on those that cannot.

        Those get the ending `.broken`, so that they do not count among the kept ones. Path and content are None where
        the folder has no checkpoint at all.

        Raises:
            ValueError: there are checkpoints, but none can be read.
        """
        broken: List[Tuple[str, str]] = []
        for path in reversed(self.paths()):
            try:
                state = load(path)
            except Exception as error:  # torch raises many kinds, for many kinds of damage
                why = " ".join(str(error).split())[:200] or type(error).__name__
                broken.append((path, why))
                continue
            for bad, _ in broken:
                os.rename(bad, bad + ".broken")
            name = os.path.basename(path)
            return path, state, ["{} cannot be read ({}); going on from {}".format(*bad, name) for bad in broken]
        if broken:
            raise ValueError(
                "no checkpoint in {} can be read ({}: {}); start anew without --resume".format(
                    self.folder, os.path.basename(broken[0][0]), broken[0][1]
                )
            )
        return None, None, []

    def write(self, state: State) -> str:
        """Write a checkpoint of the training after `state["step"]` steps; its path. The last two are kept.

        Raises:
            StorageError: the disk is full, or the folder cannot be written; earlier checkpoints stay whole.
        """
        path = os.path.join(self.folder, "step-{}.pt".format(state["step"]))
        save(dict(state, format=FORMAT), path, "a checkpoint", "--checkpoint-dir")
        for old in self.paths()[:-KEPT]:
            os.remove(old)
        return path

    def put_aside(self) -> Optional[str]:
        """Move the checkpoints that are there into a new subfolder `earlier-N`; its path, None where there are none."""
        paths = self.paths()
        if not paths:
            return None
        number = 1
        while os.path.lexists(os.path.join(self.folder, "earlier-{}".format(number))):
            number += 1
        aside = os.path.join(self.folder, "earlier-{}".format(number))
        os.mkdir(aside)
        for path in paths:
            os.rename(path, os.path.join(aside, os.path.basename(path)))
        return aside


def load(path: str) -> State:
    """The content of a checkpoint, its tensors on the CPU.

    Raises:
        Exception: of many kinds: what is there is no checkpoint.
    """
    # It holds more than tensors: an optimizer of the user's may keep anything. Older versions know no such option.
    options = {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()  # torch does not compare the checksums
    if damaged is not None:
        raise ValueError("{} in it is damaged".format(damaged))
    with open(path, "rb") as file:
        state: Any = torch.load(file, map_location="cpu", **options)
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError("not a checkpoint of this version")
    return state


def save(content: Any, path: str, what: str, option: str) -> None:
    """Write `content` with torch.save, so that the file is complete when it appears under its name.

    Args:
        content: What torch.save takes.
        path: The file; replaced where it exists.
        what: What is written, for errors.
        option: What names its folder on the command line, for errors.

    Raises:
        StorageError: the disk is full, or the folder cannot be written. Nothing is left of the file.
    """
    folder = os.path.dirname(path)
    partial = path + PARTIAL
    try:
        with open(partial, "wb") as file:
            writer = _Writer(file)
            try:
                torch.save(content, writer)  # type: ignore[arg-type]
            except Exception as error:
                raise writer.error or error from error  # torch hides what the system said
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, path)
        _sync_folder(folder)
    except BaseException as error:
        if os.path.exists(partial):
            os.remove(partial)
        if not isinstance(error, OSError):
            raise
        if error.errno not in NO_SPACE:
            raise StorageError("{} cannot be written to {}: {}".format(what, folder, error.strerror)) from error
        raise StorageError(
            "the disk is full: {} takes {} in {}, and {} are free; make room, or give another folder with {}".format(
                what, _megabytes(_tensor_bytes(content)), folder, _megabytes(shutil.disk_usage(folder).free), option
            )
        ) from error


class _Writer:
    """A file for torch.save that remembers what went wrong: torch makes a RuntimeError without words of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Optional[OSError] = None

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def make_folder(folder: str, option: str) -> None:
    """Make a folder, unless it exists, and see that files can be made in it.

    Raises:
        ValueError: they cannot.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(
            "{} cannot be written: {}; give another folder with {}".format(folder, error.strerror, option)
        ) from error


def _lock(folder: str, wait_s: float) -> int:
    """A file descriptor that holds the lock of `folder`; the system frees it when the process ends, however that be."""
    deadline = time.monotonic() + wait_s
    try:
        lock = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ValueError("{} cannot be locked: {}".format(folder, error.strerror)) from error
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR) or time.monotonic() >= deadline:
                os.close(lock)
                held = error.errno == errno.EWOULDBLOCK
                why = "another training holds {}; wait for its end, or give another folder with --checkpoint-dir"
                raise ValueError(
                    why.format(folder) if held else "{} cannot be locked: {}".format(folder, error.strerror)
                ) from error
        time.sleep(POLL_S)


def _sync_folder(folder: str) -> None:
    """See that a renaming outlives a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # not every file system can
        pass
    finally:
        os.close(descriptor)


def _tensor_bytes(content: Any) -> int:
    if isinstance(content, torch.Tensor):
        return content.numel() * content.element_size()
    if isinstance(content, dict):
        return sum(_tensor_bytes(value) for value in content.values())
    return sum(_tensor_bytes(value) for value in content) if isinstance(content, (list, tuple)) else 0


def _megabytes(count: int) -> str:
    return "{:.1f} MB".format(count / 1e6)
