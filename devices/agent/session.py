"""The session: requests of the host, one after another, until it says bye or goes away."""

import os
import platform
import signal
import sys
from types import FrameType
from typing import Any, Dict, List, Optional

from . import ALIVE, PROTOCOL, VERSION
from .bursts import BurstRun
from .channel import Channel, Message
from .clock import Clock
from .cpu import Cpu
from .failures import AgentError
from .processes import adopt_orphans
from .supervisor import Supervisor
from .sysfs import SysFs

TRAINING_SILENCE_S = 600.0  # longest time for one micro-batch: between two there are signs of life
ALIVE_S = 2.0  # longest silence towards the host while it waits for an answer
BOARDS = {Cpu.name: Cpu}


def serve(sysfs_root: str = "/") -> int:
    """Serve the host on standard input and output; the exit status."""
    clock = Clock()
    channel = Channel(os.dup(0), os.dup(1), clock)
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    return Session(channel, clock, SysFs(sysfs_root)).run()


def _leave(number: int, frame: Optional[FrameType]) -> None:
    sys.exit(128 + number)  # through every `finally`


class Session:
    """Answers the requests of one host.

    Args:
        host: The channel to it.
        clock, sysfs: Time and files.
    """

    def __init__(self, host: Channel, clock: Clock, sysfs: SysFs) -> None:
        self._host = host
        self._sysfs = sysfs
        self._clock = clock
        self._supervisor = Supervisor(host, clock, sysfs, self._tick)
        self._board: Optional[Cpu] = None
        self._id: Any = None
        self._told = 0.0
        self._loaded: List[Any] = []

    def run(self) -> int:
        """Answer until the end; whatever happens, the trainer is ended and the knobs are put back."""
        try:
            while True:
                message = self._host.receive(3600)
                if self._host.closed or (message is not None and message.get("request") == "bye"):
                    return 0
                if message is not None:
                    self._answer(message)
        finally:
            self._supervisor.kill()
            if self._board is not None:
                self._board.restore()

    def _answer(self, message: Message) -> None:
        number = message.get("id")
        self._id = number if isinstance(number, (int, str)) else None
        if "unreadable" in message:
            self._refuse("input", "not understood: {}".format(message["unreadable"]), "one JSON object a line")
            return
        request = message.get("request")
        if request == "abort":  # nothing runs
            return
        handler = getattr(self, "_on_{}".format(request), None) if isinstance(request, str) else None
        if handler is None:
            known = sorted(name[4:] for name in dir(self) if name.startswith("_on_"))
            self._refuse("input", "no request is named {!r}".format(request), "requests: {}".format(", ".join(known)))
            return
        self._supervisor.begin()
        try:
            reply = handler(message)
        except AgentError as error:
            self._refuse(error.kind, error.message, error.hint)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = "the request {} is malformed: {}: {}".format(request, type(error).__name__, error)
            self._refuse("input", text, "the protocol stands in devices/agent/__init__.py")
        except Exception as error:
            self._refuse("internal", "{}: {}".format(type(error).__name__, error), None)
        else:
            self._host.send({"id": self._id, "reply": reply})

    def _refuse(self, kind: str, message: str, hint: Optional[str]) -> None:
        self._host.send({"id": self._id, "error": {"kind": kind, "message": message, "hint": hint}})

    def _tick(self) -> None:
        if self._clock.monotonic() - self._told > ALIVE_S:
            self._tell(ALIVE)

    def _tell(self, event: Dict[str, Any]) -> None:
        self._told = self._clock.monotonic()
        self._host.send({"id": self._id, "event": event})

    def _require_board(self) -> Cpu:
        if self._board is None:
            raise AgentError("input", "no device yet", "hello comes first")
        return self._board

    # ---- requests

    def _on_hello(self, message: Message) -> Dict[str, Any]:
        if message.get("protocol") != PROTOCOL:
            text = "this agent speaks protocol {}, the host {}".format(PROTOCOL, message.get("protocol"))
            raise AgentError("device", text, "use the agent of the same version")
        name = message.get("device")
        if name not in BOARDS:
            raise AgentError("input", "this machine is no '{}'".format(name), "devices: {}".format(", ".join(BOARDS)))
        self._board = BOARDS[name](self._sysfs)
        self._supervisor.python = message.get("python")
        self._supervisor.start_up_s = float(message.get("start_up_s") or self._supervisor.start_up_s)
        found: Dict[str, Any] = {}
        if message.get("workload") is not None:
            self._tell({"phase": "load"})
            found = {"workload": self._supervisor.load(message["workload"]), "trainer": self._supervisor.versions}
            self._loaded.append(message["workload"])
        return dict(
            found,
            protocol=PROTOCOL,
            agent=VERSION,
            python=platform.python_version(),
            pid=os.getpid(),
            boot_id=self._sysfs.read_or("/proc/sys/kernel/random/boot_id"),
            device=self._board.describe(),
        )

    def _on_apply(self, message: Message) -> Dict[str, Any]:
        return {"applied": self._require_board().apply(message["setting"])}

    def _on_burst(self, message: Message) -> Dict[str, Any]:
        known = message["workload"] in self._loaded
        run = BurstRun(self._supervisor, self._require_board(), self._sysfs, self._tell, known)
        return {"measurement": run.run(message["workload"], message["setting"], message["plan"])}

    def _on_train(self, message: Message) -> Dict[str, Any]:
        board, plan = self._require_board(), message["plan"]
        self._supervisor.load(message["workload"])

        def hear(event: Dict[str, Any]) -> bool:
            self._supervisor.allow(TRAINING_SILENCE_S)
            self._tell(event)
            return False

        result = self._supervisor.exchange(
            "train",
            TRAINING_SILENCE_S,
            hear,
            patient=True,
            workload=message["workload"],
            plan=plan,
            threads=board.threads(plan["setting"]),
        )
        return {"result": result}

    def _on_restore(self, message: Message) -> Dict[str, Any]:
        return {"restored": [] if self._board is None else self._board.restore()}
