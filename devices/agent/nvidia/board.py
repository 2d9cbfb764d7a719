"""The device `nvidia`: the first GPU of a desktop or server that CUDA sees, through NVML."""

import os
from typing import Any, Callable, Dict, List, Optional

from ..board import Board, Fault, Problem, Watch
from ..clock import Clock
from ..failures import AgentError
from ..meter import MeterFault
from ..meters import find_meter
from ..sysfs import SysFs
from ..watches import BoardWatch
from .files import NvmlFiles
from .gpu import MEMORY_CLOCK, Gpu, Process
from .knobs import CLOCK, POWER, ClockKnob, NvmlKnob, PowerLimitKnob, throttle_fault
from .library import GPU_IS_LOST, RESET_REQUIRED, NvmlError
from .meter import NvmlMeter
from .select import select_gpu

SPREAD = 0.01
"""Relative spread of the rate from burst to burst beyond what a window shows: assumed, not measured."""

_MOST_ANCESTORS = 64


class Nvidia(Board):
    """A GPU as a device. What cannot be set by this process is no knob, but held as it is, and said.

    Args:
        sysfs, clock: Files and time. Unless the files are NvmlFiles, those of the same root are made and used; the
            journal takes `self.sysfs`.
        external: A command line or an HTTP address that gives watts; it then is the meter.

    Attributes:
        gpu: The GPU.
        all_knobs: `knobs`, and those that this process may not set.

    Raises:
        AgentError: `device`: no NVML, no driver, no GPU, a Jetson's GPU, or files under another root.
    """

    name = "nvidia"

    def __init__(self, sysfs: SysFs, clock: Clock, external: Optional[str] = None) -> None:
        files = sysfs if isinstance(sysfs, NvmlFiles) else NvmlFiles(sysfs.root)
        super().__init__(files, clock)
        if not files.real:
            text = "NVML is not used under the root {}: it would answer for this machine".format(files.root)
            raise AgentError("device", text, "leave out --sysfs-root, or name another device")
        try:
            self.gpu, doubt = select_gpu(files.nvml, os.environ)
            if self.gpu.is_stub:
                text = "{} is a Jetson's GPU: NVML reads neither its power nor its clock".format(self.gpu.name)
                raise AgentError("device", text, "--device jetson-orin, or the name of your module")
            self._driver = self.gpu.driver()
        except NvmlError as error:
            raise AgentError("device", error.reason, error.mend) from error
        self.model = self.gpu.name if "nvidia" in self.gpu.name.lower() else "NVIDIA {}".format(self.gpu.name)
        self.torch_device = "cuda"
        self.burst_spread = SPREAD
        self._problems = [] if doubt is None else [doubt]
        self.all_knobs = self._find_knobs(files)
        self.knobs = [knob for knob in self.all_knobs if knob.refusal() is None]
        self.always = [knob.name for knob in self.knobs if knob.name == CLOCK]
        self._find_meter(external)
        self.held_fixed = self._fixed()

    def identity(self) -> Dict[str, Any]:
        """What `doctor` tells of the GPU, None where NVML does not say; memory in bytes."""
        total, used = self._ask(self.gpu.memory_bytes, (None, None))
        return {
            "name": self.gpu.name,
            "uuid": self.gpu.uuid,
            "index": self.gpu.index,
            "driver": self._driver,
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            "persistence": self._ask(self.gpu.persistence, None),
            "mig": self.gpu.is_partitioned(),
            "temperature_c": self._ask(self.gpu.temperature_c, None),
        }

    def watches(self) -> List[Watch]:
        return [NvidiaWatch(self.gpu, BoardWatch(self.sysfs, self.clock))]

    def problems(self) -> List[Problem]:
        found = self._problems + [problem for knob in self.all_knobs for problem in knob.problems()]
        if self.gpu.is_partitioned():
            what = "MIG is on: the power is that of all parts of the GPU together, and its clock theirs in common"
            found.append(Problem(what, "sudo nvidia-smi -i {} -mig 0".format(self.gpu.index)))
        for process in self._ask(self.gpu.processes, []):
            if not self._is_ours(process.pid):
                what = "another process uses the GPU: {}{}".format(process.pid, self._words(process))
                found.append(Problem(what, "end it, or wait for it: kill {}".format(process.pid)))
        fault = throttle_fault(self._ask(self.gpu.event_reasons, 0))
        if fault is not None:
            found.append(Problem(fault.reason, "let it cool, clear its fans, check its power cables"))
        return found

    def _find_knobs(self, files: NvmlFiles) -> List[NvmlKnob]:
        found: List[NvmlKnob] = []
        for kind in (ClockKnob, PowerLimitKnob):
            try:
                found.append(kind(files, self.gpu))
            except NvmlError as error:
                text = "{} cannot be set: {}".format(kind.name, error.reason)
                self._problems.append(Problem(text, error.mend))
        return found

    def _find_meter(self, external: Optional[str]) -> None:
        if external is not None:
            meter, problems = find_meter(self.sysfs, self.clock, external)
            self.be_metered(meter, problems)
        else:
            problems = []
            try:
                self.be_metered(NvmlMeter(self.gpu), [])
            except MeterFault as fault:
                mend = getattr(fault, "mend", "connect a meter of your own, or tune without a cap")
                self.be_metered(None, [Problem(str(fault), mend)])
                problems.append(Problem("no power meter, so no cap can be held: {}".format(fault), mend))
        self._problems += problems
        self.notes += ["{} ({})".format(problem.what, problem.mend) for problem in problems]

    def _fixed(self) -> Dict[str, Any]:
        limit_mw = self._ask(self.gpu.power_limit_mw, None)
        found = {
            "gpu_uuid": self.gpu.uuid,
            "driver": self._driver,
            "gpu_max_mhz": self._ask(self.gpu.max_clock_mhz, None),
            "memory_max_mhz": self._ask(lambda: self.gpu.max_clock_mhz(MEMORY_CLOCK), None),
            "persistence": self._ask(self.gpu.persistence, None),
            POWER: None if limit_mw is None else limit_mw / 1000,
        }
        names = [knob.name for knob in self.knobs]
        return {name: value for name, value in found.items() if value is not None and name not in names}

    def _ask(self, question: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return question()
        except NvmlError:
            return otherwise

    def _is_ours(self, pid: int) -> bool:
        """Whether a process is this one or was started by it, through others too."""
        for _ in range(_MOST_ANCESTORS):
            if pid == os.getpid():
                return True
            stat = self.sysfs.read_or("/proc/{}/stat".format(pid))
            if not stat:
                return False
            pid = int(stat.rpartition(")")[2].split()[1])
        return False

    def _words(self, process: Process) -> str:
        name = self.sysfs.read_or("/proc/{}/comm".format(process.pid))
        words = [name] if name else []
        if process.used_bytes is not None:
            words.append("{} MiB".format(process.used_bytes // 2**20))
        return " ({})".format(", ".join(words)) if words else ""


class NvidiaWatch(Watch):
    """Compares the GPU with the moment this object was made. The first fault stays.

    A GPU that slows itself down, or is as hot as it does so, makes a burst `throttled`; another power limit is
    `clock_not_applied`; a GPU that fell off its bus `crashed`. At its power limit a GPU may be: whether a locked clock
    suffers from that is said by the knob.

    Args:
        gpu: The GPU.
        machine: Watches what is around it.
    """

    def __init__(self, gpu: Gpu, machine: Watch) -> None:
        self._gpu = gpu
        self._machine = machine
        self._found: Optional[Fault] = None
        self._limit_c = self._read(gpu.temperature_limit_c)
        self._power_limit_mw = self._read(gpu.power_limit_mw)

    def fault(self, power_w: Optional[float]) -> Optional[Fault]:
        for check in (self._throttling, self._heat, self._other_limit):
            if self._found is None:
                fault = check()  # which may find the GPU lost
                self._found = self._found or fault
        return self._found or self._machine.fault(power_w)

    def verdict(self, slowed: float) -> Optional[Fault]:
        return self._machine.verdict(slowed)

    def _throttling(self) -> Optional[Fault]:
        return throttle_fault(self._read(self._gpu.event_reasons) or 0)

    def _heat(self) -> Optional[Fault]:
        now_c = self._read(self._gpu.temperature_c)
        if now_c is None or self._limit_c is None or now_c < self._limit_c:
            return None
        return Fault("throttled", "the GPU reached {} C, it slows down at {} C".format(now_c, self._limit_c))

    def _other_limit(self) -> Optional[Fault]:
        now_mw = self._read(self._gpu.power_limit_mw)
        if now_mw is None or self._power_limit_mw is None or now_mw == self._power_limit_mw:
            return None
        text = "the power limit changed during the burst: from {:g} to {:g} W"
        return Fault("clock_not_applied", text.format(self._power_limit_mw / 1000, now_mw / 1000))

    def _read(self, question: Callable[[], Optional[int]]) -> Optional[int]:
        try:
            return question()
        except NvmlError as error:
            if error.code in (GPU_IS_LOST, RESET_REQUIRED):
                self._found = self._found or Fault("crashed", error.reason)
            return None
