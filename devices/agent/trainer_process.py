"""The trainer as the agent sees it: a long-lived child in its own session, that may print, fork, hang and die."""

import collections
import os
import subprocess
import threading
from typing import Any, Deque, Dict, List, Optional

from .channel import Channel, Message
from .clock import Clock
from .failures import describe_end, is_out_of_memory, was_killed
from .processes import end_descendants, end_group
from .sysfs import SysFs

LAST_WORDS = 4096  # bytes of standard error kept


class TrainerProcess:
    """A running trainer. Made by starting it; `kill` ends it with all that it started.

    Args:
        command: Program and arguments; the agent's process id is added.
        clock: The agent's.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(self, command: List[str], clock: Clock) -> None:
        self._requests = 0
        self._process = subprocess.Popen(
            [*command, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=_environment(),
        )
        assert self._process.stdin and self._process.stdout
        self.pid = self._process.pid
        self.channel = Channel(os.dup(self._process.stdout.fileno()), os.dup(self._process.stdin.fileno()), clock)
        self._process.stdout.close()
        self._process.stdin.close()
        try:  # when memory runs out the kernel shall take the trainer, not the agent or the desktop
            SysFs().write("/proc/{}/oom_score_adj".format(self.pid), "1000")
        except OSError:
            pass
        self._words: Deque[int] = collections.deque(maxlen=LAST_WORDS)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def ask(self, request: str, **parameters: Any) -> int:
        """Send a request; its id, which answers repeat."""
        self._requests += 1
        self.channel.send(dict(parameters, id=self._requests, request=request))
        return self._requests

    def receive(self) -> Optional[Message]:
        """The next message that has already come, or None."""
        return self.channel.receive(0)

    @property
    def gone(self) -> bool:
        """Whether it has ended, or closed its side."""
        return self.channel.closed or self._process.poll() is not None

    def failure(self) -> Dict[str, str]:
        """Kind (`oom` or `crashed`) and message, for a trainer that has gone by itself."""
        try:
            code: Optional[int] = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            code = None
        self._listener.join(timeout=1)
        words = bytes(self._words).decode("utf-8", "replace")
        if was_killed(code):
            return {"kind": "oom", "message": "the system killed the trainer, as it does when memory runs out"}
        kind = "oom" if is_out_of_memory(_last_lines(words, 3)) else "crashed"  # what it printed before is its own
        return {"kind": kind, "message": "the trainer {}".format(describe_end(code, _last_lines(words, 1)))}

    def kill(self) -> None:
        """End it and every process it started; may be called again."""
        end_group(self.pid)
        self._process.wait()
        end_descendants()
        self.channel.close()

    def _listen(self) -> None:
        stream = self._process.stderr
        assert stream
        while True:
            try:
                data = os.read(stream.fileno(), 65536)
            except (OSError, ValueError):
                return
            if not data:
                stream.close()
                return
            self._words.extend(data)


def _environment() -> Dict[str, str]:
    """The agent's environment, with threads that soon sleep while they wait for each other, unless the user chose.

    By default OpenMP threads spin at every barrier. Where anything else runs on the machine, a thread that spins keeps
    the one it waits for from its processor: beside one busy process, two threads on two cores were 10 to 40 times
    slower. A short spin costs nothing on an idle machine that could be measured, and saves it on a busy one.
    """
    found = dict(os.environ)
    if not any(name in found for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        found["GOMP_SPINCOUNT"] = "1000"
    found.setdefault("PYTHONHASHSEED", "0")  # the order of a set must be the same when a training is resumed
    return found


def _last_lines(text: str, count: int) -> str:
    """The last lines that say something: of a traceback, the exception."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-count:])
