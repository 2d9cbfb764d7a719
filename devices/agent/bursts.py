"""One burst with a live trainer: what is watched while it runs, and how its end becomes a status."""

from typing import Any, Callable, Dict, List, Optional

from .burst import Burst, Lengths
from .cpu import BATCH, Cpu
from .failures import AgentError
from .supervisor import Supervisor
from .sysfs import SysFs

Tell = Callable[[Dict[str, Any]], None]

TELL_S = 0.5  # between two events for the host
HANG_FACTOR = 12  # a step that takes longer than this many longest windows, or than this many longest steps, hangs
SLOWED = 0.05  # a throttled processor that became this much slower within the window does not count as steady

FAILURES = ("oom", "crashed", "timeout", "aborted")  # errors that are statuses of a burst


class ThrottleWatch:
    """Counts of thermal throttling, where the processor keeps some (x86)."""

    def __init__(self, sysfs: SysFs) -> None:
        self._sysfs = sysfs
        self._before = self._count()

    def events(self) -> int:
        """How often the processor was throttled since this object was made."""
        return self._count() - self._before

    def _count(self) -> int:
        total = 0
        for cpu in self._sysfs.list("/sys/devices/system/cpu"):
            name = "/sys/devices/system/cpu/{}/thermal_throttle/core_throttle_count".format(cpu)
            text = self._sysfs.read_or(name) if cpu[:3] == "cpu" and cpu[3:].isdigit() else None
            total += int(text) if text and text.isdigit() else 0
        return total


class BurstRun:
    """A burst from the setting to its measurement.

    Args:
        supervisor: Has the trainer.
        board: The device.
        sysfs: Its files.
        tell: Gets an event at most twice a second.
        known: Whether the workload was loaded here before: what fails now is then no matter of its name.
    """

    def __init__(self, supervisor: Supervisor, board: Cpu, sysfs: SysFs, tell: Tell, known: bool) -> None:
        self._supervisor = supervisor
        self._board = board
        self._sysfs = sysfs
        self._tell = tell
        self._known = known
        self._told: Optional[float] = None
        self._threads: Optional[int] = None
        self._longest_s = 0.0

    def run(self, workload: Dict[str, Any], setting: Dict[str, float], plan: Dict[str, Any]) -> Dict[str, Any]:
        """The measurement, as `devices.measurement.Measurement.to_json` writes it.

        Raises:
            AgentError: no burst can be made at all: kinds `input` (the workload) and `device` (the trainer).
        """
        supervisor, clock = self._supervisor, self._supervisor.clock
        began = clock.monotonic()
        accumulation = max(int(plan.get("accumulation", 1)), 1)
        micro_batch = int(setting[BATCH])
        threads = self._board.threads(setting)
        burst = Burst(Lengths.of(plan, self._board.metered), micro_batch * accumulation, self._board.burst_spread)
        hang_s = HANG_FACTOR * plan["max_s"]

        def hear(event: Dict[str, Any]) -> bool:
            self._threads = int(event["threads"])
            if self._threads != threads:
                return True
            steps: List[Any] = event["steps"]
            self._longest_s = max([self._longest_s, *(duration for _, duration in steps)])
            supervisor.allow(max(hang_s, HANG_FACTOR * self._longest_s))
            burst.add(steps)
            self._progress(burst, began)
            return burst.phase == "done"

        status: str = "ok"
        reason: Optional[str] = None
        self._progress(burst, began)
        try:
            try:
                supervisor.load(workload)
            except AgentError as error:
                if error.kind != "input" or not self._known:
                    raise
                raise AgentError("crashed", error.message) from error  # it has trained here before
            throttle = ThrottleWatch(self._sysfs)
            supervisor.exchange(
                "burst",
                supervisor.start_up_s,
                hear,
                workload=workload,
                micro_batch=micro_batch,
                accumulation=accumulation,
                threads=threads,
            )
            if self._threads != threads:
                status = "clock_not_applied"
                reason = "{} threads were asked for, torch has {}".format(threads, self._threads)
            elif burst.phase != "done":
                status, reason = "aborted", "aborted on request"
                if not supervisor.aborted:
                    supervisor.kill()
                    status, reason = "crashed", "the trainer ended the burst by itself"
            elif throttle.events() and burst.slowed() > SLOWED:
                status = "throttled"
                reason = "the processor was throttled {} times and became {:.0%} slower within the window".format(
                    throttle.events(), burst.slowed()
                )
        except AgentError as error:
            if error.kind not in FAILURES:
                raise
            status, reason = error.kind, error.message
        supervisor.rest()
        measured = burst.figures() if status in ("ok", "throttled") else {}
        return dict(measured, status=status, reason=reason, source="measured", cost_s=clock.monotonic() - began)

    def _progress(self, burst: Burst, began: float) -> None:
        now = self._supervisor.clock.monotonic()
        if self._told is not None and now - self._told < TELL_S:
            return
        self._told = now
        event: Dict[str, Any] = {"phase": burst.phase, "elapsed_s": now - began}
        if burst.phase == "window":
            event["steady"] = burst.steady
        rate = burst.rate()
        if rate is not None:
            event["throughput"] = rate.value * burst.samples_per_step
        self._tell(event)
