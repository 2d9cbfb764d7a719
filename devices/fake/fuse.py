"""A fake board as a real folder, through FUSE: `serve` mounts it for as long as it, or a command, runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from devices.agent.clock import Clock
from devices.agent.sysfs import MARKER
from devices.errors import DeviceError, InputError
from devices.fake._operations import operations
from devices.fake.board import FakeBoard
from devices.fake.folder import empty_folder, is_mounted

SPEED = 10.0  # every look at a file passes through the kernel: far above, readings of the meter come late
_REMEMBER_S = 5.0  # the kernel may remember names and kinds, never what a file holds: paths here are long
_READY = "ready"
_START_S = 60.0
_END_S = 10.0
_EXTRA = "pip install 'taste-tuner[fake-board]', and Debian's package fuse3"


@dataclass(frozen=True)
class Served:
    """What is served.

    Attributes:
        model, kernel, preset, faults, seed: Of `FakeBoard`; faults as texts.
        speed: Seconds of the board in a real one.
    """

    model: str = "jetson-orin-nano"
    kernel: str | None = None
    preset: str | None = None
    faults: tuple[str, ...] = ()
    seed: int = 0
    speed: float = SPEED

    def board(self) -> FakeBoard:
        """Raises InputError."""
        options: dict[str, Any] = {**asdict(self), "clock": Clock(self.speed)}
        del options["speed"]
        return FakeBoard(**options)


def serve(
    directory: str | Path,
    model: str = "jetson-orin-nano",
    command: Sequence[str] = (),
    *,
    kernel: str | None = None,
    preset: str | None = None,
    faults: Sequence[str] = (),
    seed: int = 0,
    speed: float = SPEED,
    ready: Callable[[], None] = lambda: None,
) -> int:
    """Serve a fake board until the command has ended, or without one until SIGINT or SIGTERM.

    Meanwhile SIGINT is the command's own affair, and SIGTERM is passed on to it: what it holds on the board is put back
    before the board goes.

    Args:
        directory: An empty folder; made where there is none, and empty again afterwards.
        command: Program and arguments.
        model, kernel, preset, faults, seed, speed: See `Served`.
        ready: Called once the board is there.

    Returns:
        The command's exit status (128 + its signal), or 0.

    Raises:
        InputError: no such board, the folder cannot be used, or the command cannot be started.
        DeviceError: FUSE is not there, or the board has ended before the command.
    """
    served = Served(model, kernel, preset, tuple(faults), seed, speed)
    served.board()  # what is wrong with it is said here
    if command and shutil.which(command[0]) is None:
        raise _unstartable(command[0], "there is no such program, or it may not be run")
    with mounted(directory, served) as mount:
        ready()
        if not command:
            return mount.wait()
        code = _run(command)
        if not mount.alive:
            raise DeviceError(f"the fake board in {directory} ended before the command did", hint="start both anew")
        return code


class Mount:
    """A board that is served by a child of this process."""

    def __init__(self, directory: Path, process: subprocess.Popen[str]) -> None:
        self.directory = directory
        self.pid = process.pid
        self._process = process

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """Until SIGINT or SIGTERM, or until somebody else unmounts it: 0."""
        with _signals(lambda number: self._process.terminate()):
            self._process.wait()
        return 0

    def close(self) -> None:
        """Unmount; whatever happens, no dead mount stays."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if is_mounted(self.directory):
            subprocess.run(["fusermount3", "-u", "-z", str(self.directory)], check=False, capture_output=True)


@contextlib.contextmanager
def mounted(directory: str | Path, served: Served) -> Iterator[Mount]:
    """A board behind a folder, for the time of a `with` block. Raises as `serve` does."""
    check_fuse()
    folder = empty_folder(directory)
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "devices.fake.fuse", str(folder), json.dumps(asdict(served))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        mount = Mount(folder, process)
        try:
            assert process.stdout is not None
            timer = threading.Timer(_START_S, process.kill)
            timer.start()
            line = process.stdout.readline()
            timer.cancel()
            if line.strip() != _READY:
                errors.seek(0)
                words = errors.read().strip().splitlines()
                raise DeviceError(f"{folder} cannot be mounted: {words[-1] if words else 'no answer'}", hint=_EXTRA)
            yield mount
        finally:
            mount.close()


def check_fuse() -> None:
    """Raises DeviceError: FUSE cannot be used here; says what is missing."""
    if not Path("/dev/fuse").exists():
        raise DeviceError(
            "there is no /dev/fuse here, so no fake board can be mounted",
            hint="sudo modprobe fuse; in a container: docker run --device /dev/fuse --cap-add SYS_ADMIN",
        )
    try:
        import_module("mfusepy")
    except (ImportError, OSError) as error:  # OSError: it finds no libfuse
        raise DeviceError(f"FUSE cannot be used: {error}", hint=_EXTRA) from error


def _run(command: Sequence[str]) -> int:
    """Run the command; its exit status as a shell tells it."""
    try:
        child = subprocess.Popen(list(command))
    except OSError as error:
        raise _unstartable(command[0], error.strerror or str(error)) from error

    def passed_on(number: int) -> None:
        if number != signal.SIGINT:  # the terminal has told it itself
            child.send_signal(number)

    with _signals(passed_on):
        code = child.wait()
    return 128 - code if code < 0 else code


def _unstartable(program: str, why: str) -> InputError:
    return InputError(f"{program} cannot be started: {why}", hint="tune fake-board DIR -- PROGRAM ARGUMENT...")


@contextlib.contextmanager
def _signals(act: Any) -> Iterator[None]:
    """Have signals do something else meanwhile; nothing outside of the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        act(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _child(directory: str, text: str) -> int:
    """The process that serves: until SIGTERM, or until its parent is gone."""
    document = json.loads(text)
    served = Served(**{**document, "faults": tuple(document["faults"])})
    board = served.board()
    trainer = [sys.executable, "-m", "devices.fake.trainer", directory]
    board.files.add(MARKER, json.dumps({"model": board.catalog.name, "speed": served.speed, "trainer": trainer}))

    def ready() -> None:
        sys.stdout.write(_READY + "\n")
        sys.stdout.flush()

    board.on_reboot.append(lambda: _lose_agent(board.lost_journal))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import_module("mfusepy").FUSE(
        operations(board, ready),
        directory,
        foreground=True,
        auto_unmount=True,
        fsname="fake-board",
        attr_timeout=_REMEMBER_S,
        entry_timeout=_REMEMBER_S,
        negative_timeout=0,
        direct_io=True,
    )
    return 0


def _end_with_parent() -> None:
    """End when the pipe from the parent ends: it has died."""
    while os.read(0, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_S)
    os._exit(1)


def _lose_agent(journal: str | None) -> None:
    """A board that loses its power takes the agent with it: the one that wrote the journal."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        os.kill(int(json.loads(journal or "")["pid"]), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(_child(sys.argv[1], sys.argv[2]))
