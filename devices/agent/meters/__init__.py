"""Power meters of real boards: which one gives the total, and what is wrong with it.

The first hardware of `_FINDERS` that is there decides, whether it can be read or not: a cap must not silently come to
hold on something else because a file was not readable today.
"""

from typing import List, Optional, Tuple

from ..board import NO_METER, Problem
from ..clock import Clock
from ..meter import Meter, MeterFault
from ..sysfs import SysFs
from .external import ExternalMeter
from .hwmon import find_battery, find_monitor, find_whole_machine
from .ina3221 import find_ina3221
from .pmic import find_pmic
from .rapl import find_rapl

_FINDERS = (find_ina3221, find_monitor, find_rapl, find_pmic, find_whole_machine, find_battery)  # the best total first
_TRIES = 3
_BETWEEN_S = 0.1
_MEND = (
    "tune without a cap, or connect a meter: an INA219 or INA226 with its kernel driver (ina2xx), or a command or an "
    "HTTP address that gives watts"
)


def find_meter(sysfs: SysFs, clock: Clock, external: Optional[str] = None) -> Tuple[Optional[Meter], List[Problem]]:
    """The best total there is, and what is wrong.

    A meter that is there but does not answer is returned too, with a problem that says why: `doctor` shows its rails,
    and every reading of it raises MeterFault. `trouble` asks again.

    Args:
        sysfs: The machine's files.
        clock: Time; waits at most about 0.3 s, with an external meter 2 s a try.
        external: A command line or an HTTP address that gives watts; it then is the meter.

    Returns:
        None for the meter where no total can be known; a problem says so.
    """
    problems: List[Problem] = []
    if external is not None and sysfs.real:
        try:
            own = ExternalMeter(external, clock)
        except ValueError as error:
            return None, [Problem(str(error), "give a command line, or an address that begins with http://")]
        return own, _checked(own, clock)
    if external is not None:
        what = "an external meter cannot measure the board whose files lie under {}".format(sysfs.root)
        problems.append(Problem(what, "leave it out, or tune on the board itself"))
    for find in _FINDERS:
        meter, found = find(sysfs, clock)
        problems += found
        if meter is not None:
            return meter, problems + ([] if found else _checked(meter, clock))
        if found:
            return None, problems
    return None, problems + [Problem(NO_METER, _MEND)]


def trouble(meter: Meter, clock: Clock) -> Optional[Problem]:
    """Why a meter cannot be used, and what mends it; None where one of three readings, 0.1 s apart, gives watts."""
    fault: Optional[MeterFault] = None
    for attempt in range(_TRIES):
        if attempt:
            clock.sleep(_BETWEEN_S)
        try:
            meter.read()
            return None
        except MeterFault as error:
            fault = error
    return Problem("{}: {}".format(meter.name, fault), getattr(fault, "mend", None) or _MEND)


def _checked(meter: Meter, clock: Clock) -> List[Problem]:
    found = trouble(meter, clock)
    if found is None:
        return []
    meter.close()  # who asks it again starts it again
    return [found]
