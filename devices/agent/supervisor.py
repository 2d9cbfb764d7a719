"""The supervisor: keeps one trainer alive, talks with it, and ends it when it hangs, starves the machine or is not
wanted any more. While it waits for the trainer it also listens to the host.
"""

import sys
from typing import Any, Callable, Dict, List, Optional

from .channel import Channel, Message
from .clock import Clock
from .failures import AgentError
from .memory import MIB, MemoryGuard, resident_bytes
from .processes import own_program
from .sysfs import SysFs
from .trainer_process import TrainerProcess

TICK_S = 0.1  # between two looks at memory and at the host
START_UP_S = 180.0  # a board's first steps can take two minutes
STOP_GRACE_S = 2.0  # after which a trainer that should stop is killed
LEAK_FACTOR, LEAK_SLACK = 2, 512 * MIB  # a trainer that holds more than this after a burst is started anew

Hear = Callable[[Dict[str, Any]], bool]
"""Told every event of a request; True asks the trainer to stop."""
Look = Callable[[], bool]


class Supervisor:
    """One trainer at most.

    Args:
        host: The channel to the host.
        clock, sysfs: Time and files.
        tick: Called about ten times a second while the trainer is waited for.

    Attributes:
        python: The trainer's Python; None: the agent's own.
        device: Where torch trains: `cpu` or `cuda`.
        launch: Starts a trainer.
        trainer: Program and arguments of another trainer, that of a fake board; None: this agent's.
        start_up_s: Longest silence while the trainer starts and takes its first step.
        versions: Python and torch of the trainer that was started last.
    """

    def __init__(self, host: Channel, clock: Clock, sysfs: SysFs, tick: Callable[[], None]) -> None:
        self.python: Optional[str] = None
        self.device = "cpu"
        self.launch: Callable[[List[str], Clock], TrainerProcess] = TrainerProcess
        self.trainer: Optional[List[str]] = None
        self.start_up_s = START_UP_S
        self.versions: Dict[str, str] = {}
        self.clock = clock
        self._sysfs = sysfs
        self._host = host
        self._tick = tick
        self._trainer: Optional[TrainerProcess] = None
        self._rest_bytes: Optional[int] = None
        self._aborts = 0
        self._silence_s = START_UP_S

    # ---- the trainer's life

    def start(self) -> None:
        """Have a trainer, if there is none.

        Raises:
            AgentError: it does not start (`device`), or that was aborted.
        """
        if self._trainer is not None and not self._trainer.gone:
            return
        self.kill()
        command = self._command()
        try:
            self._trainer = self.launch(command, self.clock)
        except OSError as error:
            text = "the trainer does not start: {}: {}".format(command[0], error.strerror or error)
            raise AgentError("device", text, "--python PATH, of a Python that imports torch") from error
        try:
            ready = self._follow(0, self.start_up_s, lambda event: False, until_ready=True)
        except AgentError:
            self.kill()
            raise
        self.versions = ready["ready"]
        if self.device == "cuda" and self.trainer is None and "gpu" not in self.versions:
            self.kill()
            text = "torch {} of {} does not see the GPU".format(self.versions.get("torch"), command[0])
            raise AgentError("device", text, "--python PATH, of a Python whose torch is built for this GPU")

    def load(self, workload: Dict[str, Any]) -> Dict[str, Any]:
        """Start where needed, load a workload, and say what the trainer found.

        Raises:
            AgentError: `input` where the workload is at fault, `oom` where it does not fit, else as `exchange`.
        """
        self.start()
        try:
            info: Dict[str, Any] = self.exchange("load", self.start_up_s, lambda event: False, workload=workload)
        except AgentError as error:
            if error.kind in ("oom", "crashed", "timeout"):
                text = "workload '{}' cannot be loaded: {}".format(workload.get("spec"), error.message)
                raise AgentError("oom" if error.kind == "oom" else "input", text, error.hint) from error
            raise
        if self._rest_bytes is None and self._trainer is not None:
            self._rest_bytes = resident_bytes(SysFs(), self._trainer.pid)
        return info

    def rest(self) -> None:
        """After a burst: start anew next time where the trainer kept a lot of memory."""
        if self._trainer is None or self._rest_bytes is None:
            return
        held = resident_bytes(SysFs(), self._trainer.pid)
        if held is not None and held > LEAK_FACTOR * self._rest_bytes + LEAK_SLACK:
            self.kill()

    def kill(self) -> None:
        """End the trainer and all it started, if there is one."""
        if self._trainer is not None:
            self._trainer.kill()
        self._trainer = None
        self._rest_bytes = None

    def _command(self) -> List[str]:
        return self.trainer or [self.python or sys.executable, *own_program()[1:], "trainer"]

    # ---- conversation

    def begin(self) -> None:
        """Forget aborts that came before this request."""
        self._aborts = 0

    @property
    def aborted(self) -> bool:
        """Whether the host wants the running request to end, or has gone."""
        return self._aborts > 0 or self._host.closed

    @property
    def trainer_pid(self) -> Optional[int]:
        """Process id of the trainer, which leads a group of its own; None without one."""
        return None if self._trainer is None else self._trainer.pid

    def exchange(
        self,
        request: str,
        silence_s: float,
        hear: Hear,
        look: Look = lambda: False,
        patient: bool = False,
        **parameters: Any,
    ) -> Any:
        """Have the trainer do something, to its end.

        Args:
            request: What.
            silence_s: Longest time without an event; a `hear` may lengthen it by `allow`.
            hear: Told every event.
            look: Called about ten times a second; True ends it, the trainer itself where it does not stop soon.
            patient: On an abort, wait for the trainer to come to an end by itself; a second abort ends it.
            parameters: Of the request.

        Raises:
            AgentError: the trainer reported an error, died, hung, starved the machine or was aborted. It is then
                gone, except where it refused to load a workload.
        """
        assert self._trainer is not None
        number = self._trainer.ask(request, device=self.device, **parameters)
        try:
            return self._follow(number, silence_s, hear, look, patient=patient)
        except AgentError as error:
            if error.kind != "input" or request != "load":
                self.kill()
            raise

    def allow(self, silence_s: float) -> None:
        """From inside `hear`: the longest time without an event, from now on."""
        self._silence_s = silence_s

    def _follow(
        self,
        number: int,
        silence_s: float,
        hear: Hear,
        look: Look = lambda: False,
        patient: bool = False,
        until_ready: bool = False,
    ) -> Dict[str, Any]:
        trainer = self._trainer
        assert trainer is not None
        guard = MemoryGuard(self._sysfs, trainer.pid)
        self._silence_s = silence_s
        heard = self.clock.monotonic()
        looked = heard
        stopping = False
        aborted_at: Optional[float] = None
        ended_at: Optional[float] = None
        while True:
            message = self._next(trainer)
            now = self.clock.monotonic()
            if message is not None and message.get("id") == number:
                heard = now
                if "error" in message:
                    error = message["error"]
                    raise AgentError(error["kind"], error["message"], error.get("hint"))
                if "reply" in message:
                    reply: Dict[str, Any] = message["reply"]
                    return reply
                event = message.get("event", {})
                if until_ready:
                    return dict(event)
                if hear(event) and not stopping:
                    trainer.ask("stop")
                    stopping = True
            elif message is None and trainer.gone:
                message = trainer.receive()  # what it said last
                if message is None:
                    raise AgentError(**trainer.failure())
                continue
            if now - looked >= TICK_S:
                looked = now
                shortage = guard.shortage()
                if shortage is not None:
                    raise AgentError("oom", shortage)
                if ended_at is None and look():
                    ended_at = now
                    if not stopping:
                        trainer.ask("stop")
                        stopping = True
                if ended_at is not None and now - ended_at > STOP_GRACE_S:
                    raise AgentError("aborted", "ended by the guard")
            if self.aborted:
                if aborted_at is None:
                    trainer.ask("stop")
                    aborted_at = now
                if self._aborts > 1 or self._host.closed or (not patient and now - aborted_at > STOP_GRACE_S):
                    raise AgentError("aborted", "aborted on request")
            if now - heard > self._silence_s:
                raise AgentError("timeout", "the trainer said nothing for {:.3g} s".format(now - heard))

    def _next(self, trainer: TrainerProcess) -> Optional[Message]:
        """What the trainer says next, waiting a tick for it at most; the host is heard too."""
        message = trainer.receive()
        if message is None and not trainer.gone:
            self.clock.wait([fd for fd in (trainer.channel.read_fd, self._host.read_fd) if fd >= 0], TICK_S)
            message = trainer.receive()
        self._hear_host()
        self._tick()
        return message

    def _hear_host(self) -> None:
        while not self._host.closed:
            said = self._host.receive(0)
            if said is None:
                return
            if said.get("request") == "abort":
                self._aborts += 1
            elif said.get("request") == "bye":
                self._host.closed = True
            else:
                busy = {"kind": "input", "message": "one request at a time; this one runs yet", "hint": "abort ends it"}
                self._host.send({"id": said.get("id"), "error": busy})
