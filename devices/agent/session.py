"""The session: requests of the host, one after another, until it says bye or goes away."""

import json
import os
import platform
import signal
import sys
from types import FrameType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import ALIVE, PROTOCOL, VERSION
from .board import Board
from .boards import open_board
from .bursts import BurstRun
from .channel import Channel, Message
from .clock import Clock
from .doctor import examine_as
from .failures import AgentError
from .guard import protect_process
from .hands import Hands
from .journal import MEND, recover
from .keeper import Keeper
from .nvidia.files import NvmlFiles
from .processes import adopt_orphans
from .reading import Reading
from .supervisor import Supervisor
from .sysfs import MARKER, SysFs
from .trainer_process import TrainerProcess

TRAINING_SILENCE_S = 600.0  # longest time for one micro-batch: between two there are signs of life
ALIVE_S = 2.0  # longest silence towards the host while it waits for an answer
FASTEST = 1000.0  # seconds of a fake board in a real one


def serve(sysfs_root: str = "/") -> int:
    """Serve the host on standard input and output; the exit status."""
    sysfs = NvmlFiles(sysfs_root)
    fake = read_marker(sysfs)
    clock = Clock(fake.speed)
    channel = Channel(os.dup(0), os.dup(1), clock)
    adopt_orphans()
    if sysfs.real:
        protect_process(sysfs)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    return Session(channel, clock, sysfs, fake.trainer).run()


class Marker(NamedTuple):
    """What a fake board says of itself: how fast its time runs, and the program that trains on it."""

    speed: float = 1.0
    trainer: Optional[List[str]] = None


def read_marker(sysfs: SysFs) -> Marker:
    """The marker of a fake board's root; that of every other root says nothing."""
    text = None if sysfs.real else sysfs.read_or(MARKER)
    if text is None:
        return Marker()
    try:
        found = json.loads(text)
        speed = float(found["speed"])
        return Marker(speed if 0 < speed <= FASTEST else 1.0, [str(part) for part in found["trainer"]])
    except (ValueError, KeyError, TypeError):
        return Marker()


def _leave(number: int, frame: Optional[FrameType]) -> None:
    sys.exit(128 + number)  # through every `finally`


class Session:
    """Answers the requests of one host.

    Args:
        host: The channel to it.
        clock, sysfs: Time and files.
        trainer: Program and arguments of the trainer, where it is not this agent's own.
        launch: Starts a trainer; a fake board's runs in the same process.
    """

    def __init__(
        self,
        host: Channel,
        clock: Clock,
        sysfs: SysFs,
        trainer: Optional[List[str]] = None,
        launch: Callable[[List[str], Clock], TrainerProcess] = TrainerProcess,
    ) -> None:
        self._host = host
        self._sysfs = sysfs
        self._clock = clock
        self._supervisor = Supervisor(host, clock, sysfs, self._tick)
        self._supervisor.trainer = trainer
        self._supervisor.launch = launch
        self._board: Optional[Board] = None
        self._asked: Any = None
        self._hands: Optional[Hands] = None
        self._reading: Optional[Reading] = None
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
            self._stop_reading()
            self._put_back()
            if self._board is not None and self._board.meter is not None:
                self._board.meter.close()

    def forget(self) -> None:
        """Put nothing back in the end: the board was switched off."""
        self._board = self._hands = None

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
        if request != "read":
            self._stop_reading()
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

    def _require_board(self) -> Tuple[Board, Hands]:
        if self._board is None or self._hands is None:
            raise AgentError("input", "no device yet", "hello comes first")
        return self._board, self._hands

    def _recover(self) -> List[str]:
        """Put back what an agent that was killed left behind, before anything is read: it would pass for as found.

        Raises:
            AgentError: `device`: a value could not be put back, or that agent lives.
        """
        result = recover(self._sysfs, self._clock)
        if result.failed:
            raise AgentError("device", "an earlier run left knobs changed: {}".format("; ".join(result.failed)), MEND)
        return result.names

    def _put_back(self) -> None:
        """What the end of a session can still do; what it cannot, the journal keeps for the next one."""
        if self._hands is not None:
            try:
                self._hands.restore()
            except AgentError as error:
                sys.stderr.write("{} ({})\n".format(error.message, error.hint))

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.stop()
            self._reading = None

    # ---- requests

    def _on_hello(self, message: Message) -> Dict[str, Any]:
        if message.get("protocol") != PROTOCOL:
            text = "this agent speaks protocol {}, the host {}".format(PROTOCOL, message.get("protocol"))
            raise AgentError("device", text, "use the agent of the same version")
        name = str(message.get("device"))
        if self._board is None or name != self._asked:
            self._put_back()
            self._recover()
            self._board = open_board(name, self._sysfs, self._clock, message.get("meter"))
            self._asked = name
            self._hands = Hands(self._board, self._clock)
        self._supervisor.device = self._board.torch_device
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

    def _on_doctor(self, message: Message) -> Dict[str, Any]:
        """What this machine is and what is wrong; with `trainer` also whether its torch works and sees the GPU."""
        report = examine_as(message.get("device"), self._sysfs, self._clock)
        if not message.get("trainer"):
            return {"report": report}
        self._tell({"phase": "load"})
        self._supervisor.python = message.get("python")
        self._supervisor.device = "cuda" if report["gpu"] and self._sysfs.real else "cpu"
        report["trainer"] = None
        try:
            self._supervisor.start()
            report["trainer"] = self._supervisor.versions
        except AgentError as error:
            report["problems"].append({"what": error.message, "mend": error.hint or "tune doctor --python PATH"})
        finally:
            self._supervisor.kill()
        return {"report": report}

    def _on_recover(self, message: Message) -> Dict[str, Any]:
        return {"restored": self._recover()}

    def _on_apply(self, message: Message) -> Dict[str, Any]:
        board, hands = self._require_board()
        fault = hands.hold(message["setting"])
        return {"applied": message["setting"], "fault": None if fault is None else fault._asdict()}

    def _on_read(self, message: Message) -> Dict[str, Any]:
        board, hands = self._require_board()
        if self._reading is None:
            cap_w = None if message["cap_w"] is None else float(message["cap_w"])
            self._reading = Reading(board, hands, cap_w, str(message["statistic"]))
        return self._reading.read()

    def _on_burst(self, message: Message) -> Dict[str, Any]:
        known = message["workload"] in self._loaded
        board, hands = self._require_board()
        run = BurstRun(self._supervisor, board, hands, self._tell, known)
        return {"measurement": run.run(message["workload"], message["setting"], message["plan"])}

    def _on_train(self, message: Message) -> Dict[str, Any]:
        (board, hands), plan = self._require_board(), message["plan"]
        fault = hands.hold(plan["setting"])
        if fault is not None:
            raise AgentError("device", fault.reason, "tune doctor tells what is in the way")
        self._supervisor.load(message["workload"])
        if self._supervisor.trainer_pid is not None:
            hands.note_group(self._supervisor.trainer_pid)
        keeper = Keeper(board, hands, plan, self._tell)

        def hear(event: Dict[str, Any]) -> bool:
            self._supervisor.allow(TRAINING_SILENCE_S)
            return keeper.hear(event)

        keeper.start()
        try:
            result = self._supervisor.exchange(
                "train",
                TRAINING_SILENCE_S,
                hear,
                keeper.look,
                patient=True,
                workload=message["workload"],
                plan=plan,
                threads=board.threads(plan["setting"]),
            )
        finally:
            keeper.stop()
        return {"result": keeper.add_to(result)}

    def _on_restore(self, message: Message) -> Dict[str, Any]:
        return {"restored": [] if self._hands is None else self._hands.restore()}
