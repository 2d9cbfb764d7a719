"""Knobs of an NVIDIA GPU: its clock, by a lock, and its power limit."""

import errno
from typing import Dict, List, Optional

from ..board import BoardKnob, Fault, Problem
from ..failures import AgentError
from .files import LOCKED_CLOCKS, POWER_LIMIT, NvmlFiles, setting_name
from .gpu import IDLE, POWER_CAP, SETTING, THROTTLED, VOLTA, Gpu
from .library import NOT_SUPPORTED, NvmlError

CLOCK, POWER = "gpu_freq_mhz", "power_limit_w"

MOST_STEPS = 16  # of about a hundred in the table: neighbours differ by less than bursts do
MOST_LIMITS = 11  # and the one that is set
STEP_MHZ = 15.0  # between two steps of the table
_TOLERANCE = 0.015  # of a clock that is read

_MENDS: Dict[int, str] = {
    errno.EACCES: "run the agent as root: sudo",
    errno.EPERM: "root is not enough in this container: start it with --cap-add SYS_ADMIN",
}


class NvmlKnob(BoardKnob):
    """A knob behind one file of NVML.

    Args:
        files: Have the file.
        gpu: The GPU.
        setting: The file's last name.
    """

    def __init__(self, files: NvmlFiles, gpu: Gpu, setting: str) -> None:
        self._sysfs = files
        self._gpu = gpu
        self._file = setting_name(gpu.index, setting)

    def files(self) -> List[str]:
        return [self._file]

    def hold(self, value: float) -> None:
        try:
            self._sysfs.write(self._file, self._text(value))
        except OSError as error:
            mend = _MENDS.get(error.errno or 0)
            if mend is None:
                raise
            if error.errno == errno.EACCES and self.refusal() == errno.EPERM:
                mend = _MENDS[errno.EPERM]
            text = "{} cannot be set on {}: {}".format(self.name, self._gpu.name, error.strerror)
            raise AgentError("device", text, mend) from error

    def fault(self, value: float, loaded: bool) -> Optional[Fault]:
        try:
            if self._sysfs.read(self._file) != self._text(value):
                text = "{} was set to {:g}, {} reads '{}'"
                now = self._sysfs.read_or(self._file)
                return Fault("clock_not_applied", text.format(self.name, value, self._file, now))
            return self._difference(value, loaded)
        except OSError as error:
            return Fault("clock_not_applied", "{} cannot be read back: {}".format(self.name, error.strerror))
        except NvmlError as error:
            return Fault("clock_not_applied", "{} cannot be read back: {}".format(self.name, error.reason))

    def refusal(self) -> Optional[int]:
        """The error number with which this process could not set it; None where it can."""
        return self._sysfs.refusal(self._file)

    def problems(self) -> List[Problem]:
        number = self.refusal()
        if number is None:
            return []
        what = "{} is held as it is: this process may not set it".format(self.name)
        return [Problem(what, _MENDS.get(number, "see whether the GPU answers: nvidia-smi"))]

    def _text(self, value: float) -> str:
        raise NotImplementedError

    def _difference(self, value: float, loaded: bool) -> Optional[Fault]:
        raise NotImplementedError


class ClockKnob(NvmlKnob):
    """The GPU clock, locked to one step.

    Attributes:
        steps: At most 16 of the table's, evenly spread.
        all_steps: The table. Any of them can be held.

    Raises:
        NvmlError: the GPU has no table, or is older than Volta.
    """

    name = CLOCK

    def __init__(self, files: NvmlFiles, gpu: Gpu) -> None:
        super().__init__(files, gpu, LOCKED_CLOCKS)
        architecture = gpu.architecture()
        if architecture is not None and architecture < VOLTA:
            raise NvmlError(NOT_SUPPORTED, "nvmlDeviceSetGpuLockedClocks", "needs Volta or newer")
        self.all_steps = [float(clock) for clock in gpu.graphics_clocks_mhz()]
        if not self.all_steps:
            raise NvmlError(NOT_SUPPORTED, "nvmlDeviceGetSupportedGraphicsClocks", "the list is empty")
        self.steps = thin(self.all_steps, MOST_STEPS)

    def hold(self, value: float) -> None:
        if value not in self.all_steps:
            low, high = self.all_steps[0], self.all_steps[-1]
            text = "{} has no step {:g} MHz: it has {} from {:g} to {:g} MHz"
            text = text.format(self._gpu.name, value, len(self.all_steps), low, high)
            raise AgentError("input", text, "nvidia-smi -q -d SUPPORTED_CLOCKS lists them")
        super().hold(value)

    def problems(self) -> List[Problem]:
        """Besides the right to write: a limit that somebody else set, as far as the driver tells."""
        found = super().problems()
        try:
            if self._gpu.event_reasons() & SETTING and not self._sysfs.read_or(self._file):
                what = (
                    "somebody limited the clock of {} ({:g} MHz now); a lock cannot be read, so it cannot be put back"
                )
                mend = "end it: sudo nvidia-smi -rgc; sudo nvidia-smi -rac; or set it again after the study"
                found.append(Problem(what.format(self._gpu.name, self._gpu.clock_mhz()), mend))
        except NvmlError:
            pass  # said by whoever needs the reading
        return found

    def _text(self, value: float) -> str:
        return "{0:.0f},{0:.0f}".format(value)

    def _difference(self, value: float, loaded: bool) -> Optional[Fault]:
        if not loaded:
            return None
        reasons = self._gpu.event_reasons()
        fault = throttle_fault(reasons)
        if fault is not None:
            return fault
        clock = self._gpu.clock_mhz()
        if reasons & IDLE or abs(clock - value) <= max(_TOLERANCE * value, STEP_MHZ):
            return None
        if clock < value and reasons & POWER_CAP:
            text = "power limit: the GPU clock was locked at {:g} MHz and runs at {:g} MHz"
            return Fault("throttled", text.format(value, clock))
        text = "the GPU clock was locked at {:g} MHz and runs at {:g} MHz"
        return Fault("clock_not_applied", text.format(value, clock))


class PowerLimitKnob(NvmlKnob):
    """The power limit, in whole watts: about a dozen from the lowest to the highest, with the one that is set.

    Raises:
        NvmlError: the GPU has no limit that can be set.
    """

    name = POWER

    def __init__(self, files: NvmlFiles, gpu: Gpu) -> None:
        super().__init__(files, gpu, POWER_LIMIT)
        low, high = (limit / 1000 for limit in gpu.power_limits_mw())
        self._default = float(gpu.power_limit_mw() // 1000)
        self.steps = limit_steps(low, high, self._default)
        if len(self.steps) < 2:
            raise NvmlError(NOT_SUPPORTED, "nvmlDeviceSetPowerManagementLimit", "the limit is fixed")

    def default(self) -> float:
        return min(self.steps, key=lambda step: abs(step - self._default))

    def _text(self, value: float) -> str:
        return "{:.0f}".format(value * 1000)

    def _difference(self, value: float, loaded: bool) -> Optional[Fault]:
        enforced = self._gpu.enforced_limit_mw()
        if enforced is None or enforced >= value * 1000:
            return None
        text = "the power limit was set to {:g} W, another one of {:g} W holds"
        return Fault("clock_not_applied", text.format(value, enforced / 1000))


def throttle_fault(reasons: int) -> Optional[Fault]:
    """Why a GPU slows itself down, by the bits of `Gpu.event_reasons`; None for those that a setting explains."""
    found = [words for bit, words in THROTTLED if reasons & bit]
    return Fault("throttled", "the GPU slowed itself down: {}".format(", ".join(found))) if found else None


def thin(steps: List[float], most: int) -> List[float]:
    """At most `most` of the steps, as evenly spread as they allow, with the first and the last."""
    if len(steps) <= most:
        return list(steps)
    apart = (steps[-1] - steps[0]) / (most - 1)
    targets = [steps[0] + apart * i for i in range(most)]
    return sorted({min(steps, key=lambda step: abs(step - target)) for target in targets})


def limit_steps(low_w: float, high_w: float, now_w: float) -> List[float]:
    """Whole watts from the lowest limit to the highest, evenly spread, and the one that is set."""
    low, high = -int(-low_w // 1), int(high_w // 1)
    if high < low:
        return []
    spread = {float(round(low + (high - low) * i / (MOST_LIMITS - 1))) for i in range(MOST_LIMITS)}
    return sorted(spread | ({now_w} if low <= now_w <= high else set()))
