"""What a board is to the agent: knobs that can be held and put back, a meter, and what is watched during a burst."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .clock import Clock
from .failures import AgentError
from .meter import Meter
from .sysfs import SysFs

BATCH = "batch_size"
NO_METER = "no power meter was found, so no cap can be held"


class Problem(NamedTuple):
    """Something wrong, and the command or value that mends it: a line of `tune doctor`."""

    what: str
    mend: str


class Fault(NamedTuple):
    """Why a burst does not count: a status of `devices.measurement.Status`, and the reason."""

    status: str
    reason: str


class BoardKnob:
    """Something of a board that can be set by writing files of the kernel (or by calls a `SysFs` answers).

    A knob never remembers what it found: the journal does, by the files the knob names.

    Attributes:
        name: As in the protocol: `gpu_freq_mhz`.
        steps: Every value of the device's table, ascending, as read from it.
    """

    name = ""
    steps: List[float] = []

    def allowed(self) -> Tuple[float, float]:
        """The range that is open now: a power mode or the temperature may have narrowed it."""
        return self.steps[0], self.steps[-1]

    def default(self) -> float:
        """The step it runs at when nobody tunes it: the highest that is open, unless something else is known."""
        low, high = self.allowed()
        return max([step for step in self.steps if low <= step <= high] or [self.steps[0]])

    def files(self) -> List[str]:
        """Every file that `hold` may write, for the journal. What they hold now is what will be put back."""
        raise NotImplementedError

    def hold(self, value: float) -> None:
        """Write what pins the knob at `value`, one of its steps, in the order the kernel wants. Waits are bounded.

        Raises:
            AgentError: kind `device`, with the command that gives the right to write, where it is not allowed.
            OSError: the kernel refuses otherwise.
        """
        raise NotImplementedError

    def fault(self, value: float, loaded: bool) -> Optional[Fault]:
        """How what the device says now differs from a held `value`; None where it holds.

        Args:
            value: What was held.
            loaded: Whether the device works: the current clock of an idle one says nothing.
        """
        raise NotImplementedError

    def problems(self) -> List[Problem]:
        """What is wrong with it: not writable, not readable."""
        return []

    def narrowed(self) -> List[Problem]:
        """What has made its range narrower than the table. While an agent holds the knob, that is its own work."""
        return []


class Watch:
    """Compares the machine now with the moment this object was made, for one burst.

    `fault` is called about ten times a second while the burst runs, and once after it.
    """

    def fault(self, power_w: Optional[float]) -> Optional[Fault]:
        """Why the burst must end, or does not count, by what was seen so far; None as long as all is well.

        Args:
            power_w: The total now, where there is a meter and the board works.
        """
        return None

    def verdict(self, slowed: float) -> Optional[Fault]:
        """Why the burst does not count although it came to its end.

        Args:
            slowed: By how much the end of the window was slower than its beginning: 0.1 is 10 %.
        """
        return None


class Board:
    """A machine as the agent sees it.

    Attributes:
        name: As the user names it: `jetson-orin-nano`, `cpu`.
        model: In words, or None.
        torch_device: Where torch trains: `cpu` or `cuda`.
        burst_spread: Relative standard deviation of the rate from burst to burst, beyond what a window shows.
        knobs: Those that can be set by writing.
        always: Names of the knobs that are searched without being asked for, beside the batch size.
        trainer_knobs: Those that the trainer is told with each burst, as `describe` gives them; the batch size is none.
        meter: The total, or None: then no cap can be held.
        no_meter: Why a meter that is there, or was named, is not used; None where all is well, or nothing is there.
        held_fixed: What is recorded beside every study: power mode, CPU set and clock, memory clock, versions.
        notes: Sentences the user should read before the first burst.

    Args:
        sysfs, clock: Files and time.
    """

    name = ""

    def __init__(self, sysfs: SysFs, clock: Clock) -> None:
        self.sysfs = sysfs
        self.clock = clock
        self.model: Optional[str] = None
        self.torch_device = "cpu"
        self.burst_spread = 0.0
        self.knobs: List[BoardKnob] = []
        self.always: List[str] = []
        self.trainer_knobs: List[Dict[str, Any]] = []
        self.meter: Optional[Meter] = None
        self.no_meter: Optional[Problem] = None
        self.held_fixed: Dict[str, Any] = {}
        self.notes: List[str] = []

    def be_metered(self, meter: Optional[Meter], problems: Sequence[Problem]) -> None:
        """Have a meter, if nothing is wrong with it: one that does not answer holds no cap."""
        self.meter = None if problems else meter
        self.no_meter = next((problem for problem in problems if problem.what != NO_METER), None)

    def describe(self) -> Dict[str, Any]:
        """What the host shall know: name, model, source, knobs with the values open now, meter, what is held fixed."""
        knobs = list(self.trainer_knobs)
        for knob in self.knobs:
            low, high = knob.allowed()
            values = [step for step in knob.steps if low <= step <= high]
            knobs.append({"name": knob.name, "values": values, "default": knob.default(), "files": knob.files()})
        return {
            "name": self.name,
            "model": self.model,
            "source": "measured" if self.sysfs.real else "emulated",
            "knobs": knobs,
            "always": self.always,
            "meter": self.meter.name if self.meter else None,
            "no_meter": self.no_meter,
            "statistics": list(self.meter.statistics) if self.meter else [],
            "held_fixed": self.held_fixed,
            "notes": self.notes + ([self.meter.note] if self.meter and self.meter.note else []),
        }

    def check(self, setting: Dict[str, float]) -> None:
        """Check the names and values of a setting.

        Raises:
            AgentError: `input`: a knob this board does not have, or a value it cannot take.
        """
        told = [BATCH, *(knob["name"] for knob in self.trainer_knobs)]
        steps = {knob.name: knob.steps for knob in self.knobs}
        for name, value in setting.items():
            if name not in told and name not in steps:
                known = ", ".join([*told, *steps])
                raise AgentError("input", "{} has no knob '{}'".format(self.name, name), "knobs: {}".format(known))
            if name in told and (value != int(value) or value < 1):
                raise AgentError("input", "{} must be a whole number >= 1, not {!r}".format(name, value))
            if name in steps and value not in steps[name]:
                listed = ", ".join("{:g}".format(step) for step in steps[name])
                raise AgentError("input", "{} has no step {:g}".format(name, value), "steps: {}".format(listed))

    def threads(self, setting: Dict[str, float]) -> Optional[int]:
        """Threads of torch at a setting; None: the trainer's own choice."""
        return None

    def watches(self) -> List[Watch]:
        """What is watched during one burst that begins now."""
        return []

    def problems(self) -> List[Problem]:
        """All that `doctor` finds wrong, knobs and meter included."""
        return [problem for knob in self.knobs for problem in (*knob.problems(), *knob.narrowed())]
