"""Which board answers to a name: this machine's processors, or the board that its files say it is."""

from typing import List, Optional

from .board import Board, Problem, Watch
from .clock import Clock
from .cpu import Cpu
from .failures import AgentError
from .identity import JETSON, identify
from .knobs import find_knobs
from .meters import find_meter
from .nvidia.board import Nvidia
from .surroundings import held_fixed, problems
from .sysfs import SysFs
from .watches import BoardWatch, ModeWatch

SPEED_KNOBS = ("gpu_freq_mhz", "cpu_freq_mhz")  # the first one there is, is always searched


class FoundBoard(Board):
    """A board as its files describe it: a Jetson, a Raspberry Pi."""

    def __init__(self, sysfs: SysFs, clock: Clock, external: Optional[str] = None) -> None:
        super().__init__(sysfs, clock)
        self._identity = identify(sysfs)
        self.name = self._identity.module or "board"
        self.model = self._identity.model
        self.torch_device = "cuda" if self._identity.family == JETSON and sysfs.real else "cpu"
        self.knobs, self._knob_problems = find_knobs(sysfs, clock)
        meter, self._meter_problems = find_meter(sysfs, clock, external)
        self.be_metered(meter, self._meter_problems)
        self.notes = ["{} ({})".format(problem.what, problem.mend) for problem in self._meter_problems]
        self.always = [name for name in SPEED_KNOBS if any(knob.name == name for knob in self.knobs)][:1]
        self.held_fixed = held_fixed(sysfs, self._identity)
        self._mode = ModeWatch(sysfs)

    def watches(self) -> List[Watch]:
        return [self._mode, BoardWatch(self.sysfs, self.clock)]

    def problems(self) -> List[Problem]:
        found = [*self._knob_problems, *self._meter_problems, *problems(self.sysfs, self._identity)]
        return list(dict.fromkeys(found + super().problems()))


def open_board(name: str, sysfs: SysFs, clock: Clock, external: Optional[str] = None) -> Board:
    """The board of that name; for a name of a family or another module of it, the one that is here.

    Args:
        name: As the host says it.
        sysfs, clock: Files and time.
        external: A command line or an HTTP address that gives watts.

    Raises:
        AgentError: `input`: this machine is no such board.
    """
    if name == Cpu.name:
        return Cpu(sysfs, clock, external)
    if name == Nvidia.name:
        return Nvidia(sysfs, clock, external)
    identity = identify(sysfs)
    if identity.family is None:
        where = "this machine" if sysfs.real else "the board under {}".format(sysfs.root)
        text = "{} is no '{}': {}".format(where, name, identity.model or "its files name no board that is known")
        raise AgentError("input", text, "--device cpu, or --emulate for a model of the board")
    return FoundBoard(sysfs, clock, external)
