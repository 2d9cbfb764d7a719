"""One burst with a live trainer: what is watched while it runs, and how its end becomes a status."""

from typing import Any, Callable, Dict, List, Optional

from .board import BATCH, Board, Fault, Watch
from .burst import Burst, Lengths
from .failures import AgentError
from .guard import GuardWatch, drop_caches
from .hands import Hands
from .metering import Metering
from .supervisor import Supervisor

Tell = Callable[[Dict[str, Any]], None]

TELL_S = 0.5  # between two events for the host
VERIFY_S = 1.0  # between two looks at the clocks
HANG_FACTOR = 12  # a step that takes longer than this many longest windows, or than this many longest steps, hangs

FAILURES = ("oom", "crashed", "timeout", "aborted", "over_cap", "throttled", "clock_not_applied")
"""Kinds of errors that are statuses of a burst."""
PARTIAL = ("over_cap", "throttled")
"""Statuses of which the part of the burst that ran is told."""


class BurstRun:
    """A burst from the setting to its measurement.

    Args:
        supervisor: Has the trainer.
        board: The device.
        hands: Hold its knobs.
        tell: Gets an event at most twice a second.
        known: Whether the workload was loaded here before: what fails now is then no matter of its name.
    """

    def __init__(self, supervisor: Supervisor, board: Board, hands: Hands, tell: Tell, known: bool) -> None:
        self._supervisor = supervisor
        self._board = board
        self._hands = hands
        self._tell = tell
        self._known = known
        self._clock = supervisor.clock
        self._began = self._clock.monotonic()
        self._told: Optional[float] = None
        self._verified: Optional[float] = None
        self._fault: Optional[Fault] = None
        self._watches: List[Watch] = []
        self._metering = Metering(board.meter, self._clock)
        self._threads: Optional[int] = None
        self._longest_s = 0.0

    def run(self, workload: Dict[str, Any], setting: Dict[str, float], plan: Dict[str, Any]) -> Dict[str, Any]:
        """The measurement, as `devices.measurement.Measurement.to_json` writes it.

        Raises:
            AgentError: no burst can be made at all: kinds `input` (the workload, the setting) and `device` (the
                trainer, no right to set a knob).
        """
        accumulation = max(int(plan.get("accumulation", 1)), 1)
        micro_batch = int(setting[BATCH])
        lengths = Lengths.of(plan, self._board.meter is not None)
        burst = Burst(lengths, micro_batch * accumulation, self._board.burst_spread, self._metering.tight(plan))
        self._progress(burst)
        status: str = "ok"
        reason: Optional[str] = None
        try:
            self._require(self._hands.hold(setting))
            self._load(workload)
            self._metering.start()
            self._watches = [*self._board.watches(), GuardWatch(self._board.sysfs, self._clock, plan.get("cap_w"))]
            self._exchange(burst, plan, workload, micro_batch, accumulation, self._board.threads(setting))
            self._require(self._fault or self._verify(False) or self._metering.fault(burst.window))
            slowed = self._slowed(burst)
            if slowed is not None:
                status, reason = slowed
        except AgentError as error:
            if error.kind not in FAILURES:
                raise
            fault = self._fault or Fault(error.kind, error.message)  # what ended it, not how the trainer took that
            status, reason = fault
        finally:
            self._metering.stop()
        if status == "oom":
            drop_caches(self._board.sysfs)
        self._supervisor.rest()
        measured: Dict[str, Any] = {}
        if status == "ok" or status in PARTIAL:
            measured = self._metering.add_to(burst.figures(), burst.window, status)
        now = self._clock.monotonic()
        return dict(
            measured,
            status=status,
            reason=reason,
            source="measured" if self._board.sysfs.real else "emulated",
            cost_s=now - self._began,
            cost_j=self._metering.energy_j(),
        )

    def _load(self, workload: Dict[str, Any]) -> None:
        try:
            self._supervisor.load(workload)
        except AgentError as error:
            if error.kind != "input" or not self._known:
                raise
            raise AgentError("crashed", error.message) from error  # it has trained here before
        pid = self._supervisor.trainer_pid
        if pid is not None:
            self._hands.note_group(pid)

    def _exchange(
        self,
        burst: Burst,
        plan: Dict[str, Any],
        workload: Dict[str, Any],
        micro_batch: int,
        accumulation: int,
        threads: Optional[int],
    ) -> None:
        """The burst itself.

        Raises:
            AgentError: it failed, for a reason that is a status.
        """
        supervisor = self._supervisor
        hang_s = HANG_FACTOR * plan["max_s"]

        def hear(event: Dict[str, Any]) -> bool:
            self._threads = int(event["threads"])
            if threads is not None and self._threads != threads:
                return True
            steps: List[Any] = event["steps"]
            self._longest_s = max([self._longest_s, *(duration for _, duration in steps)])
            supervisor.allow(max(hang_s, HANG_FACTOR * self._longest_s))
            burst.add(steps)
            self._metering.count(burst.phase)
            self._progress(burst)
            return burst.phase == "done"

        def look() -> bool:
            self._fault = self._fault or self._look(burst)
            self._progress(burst)
            return self._fault is not None

        supervisor.exchange(
            "burst",
            supervisor.start_up_s,
            hear,
            look,
            workload=workload,
            micro_batch=micro_batch,
            accumulation=accumulation,
            threads=threads,
        )
        if threads is not None and self._threads != threads:
            text = "{} threads were asked for, torch has {}".format(threads, self._threads)
            raise AgentError("clock_not_applied", text)
        if burst.phase != "done" and self._fault is None:
            if supervisor.aborted:
                raise AgentError("aborted", "aborted on request")
            supervisor.kill()
            raise AgentError("crashed", "the trainer ended the burst by itself")

    def _look(self, burst: Burst) -> Optional[Fault]:
        """What must end the burst now."""
        working = burst.phase in ("warm-up", "window")
        power_w = self._metering.latest_w if working else None
        for watch in self._watches:
            fault = watch.fault(power_w)
            if fault is not None:
                return fault
        now = self._clock.monotonic()
        if self._verified is None or now - self._verified >= VERIFY_S:
            self._verified = now
            return self._verify(burst.phase == "window") or self._metering.fault(None)
        return None

    def _verify(self, loaded: bool) -> Optional[Fault]:
        return self._hands.fault(loaded)

    def _slowed(self, burst: Burst) -> Optional[Fault]:
        """For devices whose processors count their throttling: only where it shows in the window."""
        for watch in self._watches:
            fault = watch.verdict(burst.slowed())
            if fault is not None:
                return fault
        return None

    @staticmethod
    def _require(fault: Optional[Fault]) -> None:
        if fault is not None:
            raise AgentError(fault.status, fault.reason)

    def _progress(self, burst: Burst) -> None:
        now = self._clock.monotonic()
        if self._told is not None and now - self._told < TELL_S:
            return
        self._told = now
        event: Dict[str, Any] = {"phase": burst.phase, "elapsed_s": now - self._began}
        if burst.phase == "window":
            event["steady"] = burst.steady
        rate = burst.rate()
        if rate is not None:
            event["throughput"] = rate.value * burst.samples_per_step
        if self._metering.latest_w is not None:
            event["power_w"] = self._metering.latest_w
        self._tell(event)
