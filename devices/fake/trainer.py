"""The trainer of a fake board: speaks the trainer's protocol, and trains as fast as the board's physics say.

As a child of the agent (`python -m devices.fake.trainer ROOT AGENT_PID`) it reaches the board through its files;
`threads.ThreadTrainer` runs it in the agent's own process. It imports no torch: the board counts what a step costs.
"""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import sys
import time
from typing import Any

from devices.agent.channel import Channel, Message
from devices.agent.clock import Clock
from devices.agent.failures import is_out_of_memory
from devices.agent.processes import end_with_parent
from devices.agent.session import read_marker
from devices.agent.sysfs import SysFs
from devices.fake.work import TRAIN, WORK

REPORT_S = 0.1  # as the real one
_SHORTEST = 0.2  # of the mean: no noise makes a step shorter
_THREADS = 1
_ASSERT = (
    "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
    '"/opt/pytorch/c10/cuda/CUDACachingAllocator.cpp":995, please report a bug to PyTorch.'
)
_NVMAP = "NvMapMemAllocInternalTagged: 1075072515 error 12\nNvMapMemHandleAlloc: error 0"


class Ended(Exception):  # noqa: N818  # said of the process
    """The trainer's process has ended: with a status as `Popen.returncode`, after these last words."""

    def __init__(self, returncode: int, words: str = "") -> None:
        super().__init__(f"ended with {returncode}")
        self.returncode = returncode
        self.words = words


class Trainer:
    """Answers one request after another.

    Args:
        sysfs: The board's files.
        clock: The board's.
        channel: To the agent.
    """

    def __init__(self, sysfs: SysFs, clock: Clock, channel: Channel) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._channel = channel
        self._id = 0
        self._stopped = False

    def run(self) -> None:
        """Serve until the agent goes away.

        Raises:
            Ended: otherwise than by itself.
        """
        self._tell({"do": "idle"})
        versions = {"python": platform.python_version(), "torch": "none: a fake board"}
        self._channel.send({"id": 0, "event": {"ready": versions}})
        while True:
            message = self._channel.receive(3600)
            if self._channel.closed:
                return
            if message is None or message.get("request") == "stop":
                continue
            self._id = message.get("id", 0)
            self._stopped = False
            self._answer(message)

    def _answer(self, message: Message) -> None:
        request = message.get("request")
        if request not in ("load", "burst"):
            text = f"a fake board cannot {request}: it has speed and power, but no numbers to learn from"
            hint = "--device cpu --accept-source trains here"
            self._send({"error": {"kind": "input", "message": text, "hint": hint}})
            return
        if request == "burst":
            self._send(self._burst(message))
            return
        self._tell({"do": "load", "workload": message["workload"]})
        answer = self._look()
        self._send({"error": answer["error"]} if "error" in answer else {"reply": answer["info"]})

    def _burst(self, message: Message) -> Message:
        """Train until told to stop, and report every optimizer step; what it ends with."""
        threads = message.get("threads") or _THREADS
        self._send({"event": {"steps": [], "threads": threads}})
        began = now = self._clock.monotonic()
        asked = {key: message[key] for key in ("workload", "micro_batch", "accumulation")}
        self._tell({"do": "burst", **asked})
        noise: random.Random | None = None
        left = 1.0  # of the step, 1 being one of mean length
        while not self._should_stop():
            work = self._look()
            if "error" in work:
                return {"error": work["error"]}
            self._suffer(work["fate"], work["phase"])
            end = now + REPORT_S
            steps: list[tuple[float, float]] = []
            if work["phase"] == TRAIN:
                if noise is None:
                    noise = random.Random(work["seed"])
                while now < end:
                    needed_s = left * work["step_s"]
                    if now + needed_s > end:
                        left -= (end - now) / work["step_s"]
                        break
                    now += needed_s
                    steps.append((now, now - began))
                    began = now
                    left = max(1 + work["step_cv"] * noise.gauss(0.0, 1.0), _SHORTEST)
            now = end
            self._clock.sleep(now - self._clock.monotonic())
            if steps:
                self._send({"event": {"steps": steps, "threads": threads}})
        self._tell({"do": "idle"})
        return {"reply": {}}

    def _suffer(self, fate: str | None, phase: str) -> None:
        """Come to a bad end, if that is what the board says.

        Raises:
            Ended: always, except for a trainer that hangs until the agent goes away.
        """
        if fate is None:
            return
        if fate == "hangs":
            while not self._channel.closed:
                self._channel.receive(1.0)
            raise Ended(0)
        if fate == "killed":
            raise Ended(-signal.SIGKILL)
        if fate == "crashed":
            raise Ended(-signal.SIGSEGV)
        if fate == "nvmap":
            raise Ended(1, _NVMAP)
        kind = "oom" if is_out_of_memory(_ASSERT) else "crashed"
        self._send({"error": {"kind": kind, "message": _ASSERT, "hint": None}})
        raise Ended(1)

    def _should_stop(self) -> bool:
        message = self._channel.receive(0)
        if message is not None and message.get("request") == "stop":
            self._stopped = True
        return self._stopped or self._channel.closed

    def _tell(self, request: dict[str, Any]) -> None:
        self._sysfs.write(WORK, json.dumps(request))

    def _look(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._sysfs.read(WORK))
        return found

    def _send(self, message: Message) -> None:
        self._channel.send({**message, "id": self._id})


def main(root: str, parent_pid: int) -> int:
    """Be the child of an agent; the exit status."""
    end_with_parent(parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sysfs = SysFs(root)
    clock = Clock(read_marker(sysfs).speed)
    channel = Channel(os.dup(0), os.dup(1), clock)
    try:
        Trainer(sysfs, clock, channel).run()
    except Ended as ended:
        sys.stderr.write(ended.words + "\n" if ended.words else "")
        sys.stderr.flush()
        if ended.returncode < 0:
            os.kill(os.getpid(), -ended.returncode)
            time.sleep(1)
        return abs(ended.returncode)
    except OSError as error:
        sys.stderr.write(f"the fake board under {root} is gone: {error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
