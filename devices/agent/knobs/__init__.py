"""The knobs of real boards, found by what the kernel shows of them: one file each."""

from typing import Callable, List, Optional, Tuple

from ..board import BoardKnob, Problem
from ..clock import Clock
from ..sysfs import SysFs
from ._files import Unusable
from .cores import CpuCores
from .cpufreq import CpuFreq
from .emc import Emc
from .gpu_devfreq import GpuDevfreq

# CPUs are switched on and off before their clocks are set: a clock that sleeps takes no limits.
_FINDERS: Tuple[Callable[[SysFs, Clock], Optional[BoardKnob]], ...] = (
    GpuDevfreq.find,
    CpuCores.find,
    CpuFreq.find,
    Emc.find,
)


def find_knobs(sysfs: SysFs, clock: Clock) -> Tuple[List[BoardKnob], List[Problem]]:
    """Every knob this machine really has, in the order in which they are to be set, and why others cannot be used.

    Whatever the files hold, nothing is raised and nothing is written.
    """
    knobs: List[BoardKnob] = []
    problems: List[Problem] = []
    for find in _FINDERS:
        try:
            knob = find(sysfs, clock)
        except Unusable as error:
            problems.append(error.problem)
        else:
            if knob is not None:
                knobs.append(knob)
    return knobs, problems
