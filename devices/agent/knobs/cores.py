"""`cpu_cores`: how many CPUs are switched on. A TX2 has two kinds, of which most of its power modes leave one off."""

import errno
import re
from typing import List, Optional, Set, Tuple

from ..board import BoardKnob, Fault, Problem
from ..clock import Clock
from ..failures import AgentError
from ..sysfs import SysFs
from ._files import NOT_APPLIED, NoValue, is_jetson, not_writable, open_range, read_text, wider_mode, write
from .cpufreq import CPUS, related_cpus

_ONLINE = CPUS + "online"
_TRIES = 5  # a CPU is busy (EBUSY) while the kernel moves another
_WAIT_S = 0.1


class CpuCores(BoardKnob):
    """The number of CPUs that are switched on: first those that cannot be switched off, then those that were on when
    the knob was made, then the others; of each cluster by cluster, from that of CPU 0 on.

    Args:
        sysfs, clock: Files and time.
        cpus: Numbers of all CPUs.
        fixed: Those that cannot be switched off; CPU 0 always is one.
        online: Those that are on.
    """

    name = "cpu_cores"

    def __init__(self, sysfs: SysFs, clock: Clock, cpus: Set[int], fixed: Set[int], online: Set[int]) -> None:
        self._sysfs = sysfs
        self._clock = clock
        first = {cpu: min(cluster) for cluster in related_cpus(sysfs) for cpu in cluster}

        def rank(cpu: int) -> Tuple[bool, bool, int, int]:
            return cpu not in fixed, cpu not in online, first.get(cpu, cpu), cpu

        self._order = sorted(cpus, key=rank)  # the first n are on
        self._switched = sorted(cpus - fixed)
        self.steps = [float(count) for count in range(len(fixed), len(cpus) + 1)]

    @classmethod
    def find(cls, sysfs: SysFs, clock: Clock) -> Optional["CpuCores"]:
        """The knob of this machine; None where no CPU can be switched off."""
        found = (re.match(r"cpu(\d+)$", name) for name in sysfs.list(CPUS))
        cpus = {int(match.group(1)) for match in found if match}
        fixed = {cpu for cpu in cpus if cpu == 0 or sysfs.read_or(_file(cpu)) not in ("0", "1")}
        try:
            online = read_online(sysfs)
        except NoValue:  # `problems` says so
            online = cpus
        dead = fixed - online  # off, and cannot be switched on
        cpus, fixed = cpus - dead, fixed - dead
        return cls(sysfs, clock, cpus, fixed, online) if fixed and cpus - fixed else None

    def allowed(self) -> Tuple[float, float]:
        """Up to those that are on now: which are, is the power mode's to say."""
        try:
            count = len(read_online(self._sysfs))
        except NoValue:
            return self.steps[0], self.steps[-1]
        return open_range(self.steps, None, count)

    def files(self) -> List[str]:
        return [_file(cpu) for cpu in self._switched]

    def hold(self, value: float) -> None:
        wanted = self._wanted(value)
        for cpu in [cpu for cpu in self._switched if cpu in wanted] + self._switched[::-1]:
            text = "1" if cpu in wanted else "0"
            if self._sysfs.read_or(_file(cpu)) != text:
                self._switch(cpu, text)
        for _ in range(_TRIES):
            if self.fault(value, False) is None:
                break
            self._clock.sleep(_WAIT_S)

    def fault(self, value: float, loaded: bool) -> Optional[Fault]:
        wanted = self._wanted(value)
        try:
            online = read_online(self._sysfs)
        except NoValue as error:
            return Fault(NOT_APPLIED, str(error))
        if online == wanted:
            return None
        text = "asked CPUs {0}, got {1} ({2})"
        if loaded:
            text = "reset during the burst: CPUs {1} are now online, {0} were asked ({2})"
        return Fault(NOT_APPLIED, text.format(_listed(wanted), _listed(online), _ONLINE))

    def problems(self) -> List[Problem]:
        found = not_writable(self._sysfs, self.files())
        try:
            read_online(self._sysfs)
        except NoValue as error:
            found.append(Problem(str(error), "see what the kernel shows: cat {}".format(_ONLINE)))
        return found

    def narrowed(self) -> List[Problem]:
        most = self.allowed()[1]
        if most == self.steps[-1]:
            return []
        text = "only {:g} of {:g} CPUs are online".format(most, self.steps[-1])
        mend = "echo 1 | sudo tee {}cpu*/online".format(CPUS)
        if is_jetson(self._sysfs):
            text, mend = text + ", as the power mode or another program wants it", wider_mode(self._sysfs)
        return [Problem(text, mend)]

    def _switch(self, cpu: int, text: str) -> None:
        for tries_left in range(_TRIES - 1, -1, -1):
            try:
                write(self._sysfs, _file(cpu), text)
                return
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.EAGAIN) or not tries_left:
                    raise
                self._clock.sleep(_WAIT_S)

    def _wanted(self, value: float) -> Set[int]:
        if value not in self.steps:
            hint = "{:g} to {:g}".format(self.steps[0], self.steps[-1])
            raise AgentError("input", "{} has no step {:g}".format(self.name, value), hint)
        return set(self._order[: int(value)])


def read_online(sysfs: SysFs) -> Set[int]:
    """The CPUs that are on: `0-3,6`.

    Raises:
        NoValue: the file cannot be read or understood.
    """
    text = read_text(sysfs, _ONLINE)
    found: Set[int] = set()
    for part in text.split(","):
        ends = re.match(r"(\d{1,5})(?:-(\d{1,5}))?$", part.strip())
        if not ends:
            raise NoValue("{} holds {!r}, which is no list of CPUs".format(_ONLINE, text[:40]))
        found.update(range(int(ends.group(1)), int(ends.group(2) or ends.group(1)) + 1))
    return found


def _file(cpu: int) -> str:
    return "{}cpu{}/online".format(CPUS, cpu)


def _listed(cpus: Set[int]) -> str:
    return ", ".join(str(cpu) for cpu in sorted(cpus))
