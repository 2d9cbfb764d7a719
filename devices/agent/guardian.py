"""The guardian: a process that outlives the agent by a moment, to put the board back when the agent was killed.

It reads a pipe that only the agent holds open. The agent's farewell means that all is restored; an end of input without
one means that the agent has died.
"""

import os
import signal
import subprocess
import sys
from typing import List, Optional

from .clock import Clock
from .journal import load, recover
from .nvidia.files import NvmlFiles
from .processes import end_group

_FAREWELL = b"bye\n"


class Guardian:
    """Started before the first write; ended by `dismiss`.

    Args:
        command: How the agent starts itself: program and arguments before the word that says as what.
        root: Of the board's files.

    Raises:
        OSError: it cannot be started; nothing may be written then.
    """

    def __init__(self, command: List[str], root: str) -> None:
        self._process: Optional["subprocess.Popen[bytes]"] = subprocess.Popen(
            [*command, "guardian", root, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            close_fds=True,
        )
        assert self._process.stdin and self._process.stdout
        if not self._process.stdout.readline():  # it ignores signals from now on
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            raise OSError("the guardian ended with status {}".format(self._process.returncode))

    @property
    def pid(self) -> int:
        """Its process id, 0 when dismissed."""
        return self._process.pid if self._process is not None else 0

    def dismiss(self) -> None:
        """All is restored: end it. May be called again."""
        if self._process is None:
            return
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(_FAREWELL)
            self._process.stdin.close()
        except OSError:  # killed
            pass
        self._process.wait()
        self._process.stdout.close()
        self._process = None


def guard(root: str, agent_pid: int) -> int:
    """The guardian's own life; its exit status tells whether the board is as it was found.

    It touches the journal of its own agent only: another one may hold the board by now.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.close(1)
    said = b""
    while True:
        more = os.read(0, 64)
        if not more:
            break
        said += more
    if said.endswith(_FAREWELL):
        return 0
    sysfs = NvmlFiles(root)
    left = load(sysfs)
    if left is None or left["pid"] != agent_pid:
        return 0
    for group in left["groups"]:
        end_group(group)
    return 1 if recover(sysfs, Clock(), orphaned=True).failed else 0
