"""How an agent is reached: a process with a pipe. Here a child on the same machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Protocol

from devices.agent.channel import Channel
from devices.agent.clock import Clock
from devices.archive import DATA_FOLDER, DATA_VARIABLE, archive_path
from devices.errors import DeviceError

CLOSE_S = 5.0  # for the agent to end by itself


class Link(Protocol):
    """How an agent is reached.

    Attributes:
        pid: Process id of the agent, where it has one of its own on this machine.
        channel: To it; its `closed` tells that the agent has gone.
    """

    pid: int
    channel: Channel

    def last_words(self) -> str:
        """The last line the agent wrote to standard error, or nothing."""

    def close(self) -> None:
        """End the agent, which restores; by force where that takes too long."""


class LocalLink:
    """An agent as a child of this process, in a session of its own: Ctrl-C at the terminal does not reach it.

    Args:
        python: The Python that runs the agent.
        root: Of the board's files; another than `/` is a fake board's, or a copy of a board's files.

    Raises:
        DeviceError: it cannot be started.
    """

    def __init__(self, python: str = sys.executable, root: str = "/") -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [python, str(archive_path()), "serve", root],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
                env={**os.environ, DATA_VARIABLE: str(DATA_FOLDER)},
            )
        except OSError as error:
            self._errors.close()
            raise DeviceError(f"the agent cannot be started: {python}: {error.strerror or error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.channel = Channel(os.dup(self._process.stdout.fileno()), os.dup(self._process.stdin.fileno()), Clock())
        self._process.stdout.close()
        self._process.stdin.close()

    def last_words(self) -> str:
        """The last line the agent wrote to standard error, or nothing."""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End the agent: by the end of its input, and where that takes too long, by force."""
        self.channel.close()
        try:
            self._process.wait(timeout=CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
