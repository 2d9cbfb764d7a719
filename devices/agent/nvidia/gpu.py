"""One GPU as NVML shows it: typed readings with their units, and the two settings that can be written."""

import ctypes
from typing import Any, List, NamedTuple, Optional, Tuple

from .library import (
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    NOT_SUPPORTED,
    VALUE_MEMBERS,
    Device,
    FieldValue,
    Memory,
    Nvml,
    NvmlError,
    ProcessInfo,
)

SM_CLOCK, MEMORY_CLOCK = 1, 2
VOLTA, AMPERE = 5, 7
GA100 = (8, 0)  # its compute capability; other Amperes have 8.6 and 8.7
POWER_INSTANT = 186  # number of a field: milliwatts

IDLE = 0x1
SETTING = 0x2  # application clocks; nobody says whether a lock counts
POWER_CAP = 0x4
THROTTLED = (
    (0x40, "too hot (hardware)"),
    (0x20, "too hot (software)"),
    (0x80, "external power brake"),
    (0x8, "hardware slowdown: too hot, or too much power drawn"),
)

_SLOWDOWN, _GPU_MAX = 1, 3  # thresholds of temperature
_ATTEMPTS = 5  # at a list that grows while it is read
_UNUSABLE = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)


class Process(NamedTuple):
    """A program that computes on the GPU.

    Attributes:
        pid: In the machine's numbers; a container has others.
        used_bytes: Of GPU memory, or None where that is not said.
    """

    pid: int
    used_bytes: Optional[int]


class Gpu:
    """A GPU. Every method raises NvmlError where NVML refuses.

    Args:
        nvml: The library.
        index: NVML's number of it, in the order of the PCI bus.
    """

    def __init__(self, nvml: Nvml, index: int) -> None:
        handle = Device()
        nvml.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        self._nvml = nvml
        self._handle = handle
        self.index = index
        self.name = nvml.text("nvmlDeviceGetName", handle)
        self.uuid = nvml.text("nvmlDeviceGetUUID", handle)

    @property
    def is_stub(self) -> bool:
        """Whether it is a Jetson's: NVML names it there (`Orin (nvgpu)`), and answers nearly nothing else."""
        return "nvgpu" in self.name.lower()

    def driver(self) -> str:
        """The driver's version."""
        return self._nvml.text("nvmlSystemGetDriverVersion")

    def architecture(self) -> Optional[int]:
        """NVML's number of it: 5 Volta, 6 Turing, 7 Ampere, ...; None where the driver does not know."""
        found = self._or_none("nvmlDeviceGetArchitecture")
        return None if found == 0xFFFFFFFF else found

    def averages_power(self) -> bool:
        """Whether `power_mw` is a mean of the last second: from Ampere on, but for GA100. True where it is unknown."""
        architecture = self.architecture()
        if architecture is None or architecture > AMPERE:
            return True
        if architecture < AMPERE:
            return False
        try:
            return self._nvml.pair("nvmlDeviceGetCudaComputeCapability", self._handle) != GA100
        except NvmlError:
            return True

    def power_mw(self) -> int:
        """Power of the whole board."""
        return self._number("nvmlDeviceGetPowerUsage")

    def instant_power_mw(self) -> int:
        """The same, not averaged over a second."""
        field = FieldValue(field_id=POWER_INSTANT, scope_id=0)
        self._nvml.call("nvmlDeviceGetFieldValues", self._handle, 1, ctypes.byref(field))
        if field.result != 0 or field.value_type >= len(VALUE_MEMBERS):
            raise NvmlError(field.result or NOT_SUPPORTED, "field {}".format(POWER_INSTANT), "no value")
        return int(getattr(field.value, VALUE_MEMBERS[field.value_type]))

    def energy_mj(self) -> int:
        """Energy since the driver was loaded; stands still for 10 to 100 ms at a time. Volta and newer."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption")

    def power_limit_mw(self) -> int:
        """The limit that is set."""
        return self._number("nvmlDeviceGetPowerManagementLimit")

    def enforced_limit_mw(self) -> Optional[int]:
        """The lowest of all limits that hold now; None where the driver does not say."""
        return self._or_none("nvmlDeviceGetEnforcedPowerLimit")

    def power_limits_mw(self) -> Tuple[int, int]:
        """The lowest and the highest limit that can be set."""
        return self._nvml.pair("nvmlDeviceGetPowerManagementLimitConstraints", self._handle)

    def set_power_limit_mw(self, limit_mw: int) -> None:
        """Needs root."""
        self._nvml.call("nvmlDeviceSetPowerManagementLimit", self._handle, limit_mw)

    def graphics_clocks_mhz(self) -> List[int]:
        """Every step of the GPU clock at the highest memory clock, ascending."""
        memory_mhz = max(self._list("nvmlDeviceGetSupportedMemoryClocks") or [0])
        return sorted(set(self._list("nvmlDeviceGetSupportedGraphicsClocks", memory_mhz)))

    def clock_mhz(self, kind: int = SM_CLOCK) -> int:
        """The clock now; of an idle GPU it says nothing."""
        return self._number("nvmlDeviceGetClockInfo", kind)

    def max_clock_mhz(self, kind: int = SM_CLOCK) -> Optional[int]:
        """The highest that clock can be; None where the driver does not say."""
        return self._or_none("nvmlDeviceGetMaxClockInfo", kind)

    def lock_clocks(self, low_mhz: int, high_mhz: int) -> None:
        """Ask for a range of the GPU clock; success does not mean that it holds. Needs root; Volta and newer."""
        self._nvml.call("nvmlDeviceSetGpuLockedClocks", self._handle, low_mhz, high_mhz)

    def unlock_clocks(self) -> None:
        """End any lock of the GPU clock, whoever made it."""
        self._nvml.call("nvmlDeviceResetGpuLockedClocks", self._handle)

    def event_reasons(self) -> int:
        """Bits of why the clock is what it is; 0 where the driver does not say."""
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            found = self._or_none(name)  # the second is what drivers before 535 have
            if found is not None:
                return found
        return 0

    def temperature_c(self) -> Optional[int]:
        """Of the chip; None where it is not read."""
        return self._or_none("nvmlDeviceGetTemperature", 0)

    def temperature_limit_c(self) -> Optional[int]:
        """The temperature at which the GPU begins to slow down; None where it is not said."""
        found = [self._or_none("nvmlDeviceGetTemperatureThreshold", kind) for kind in (_SLOWDOWN, _GPU_MAX)]
        return min([limit for limit in found if limit] or [0]) or None

    def memory_bytes(self) -> Tuple[int, int]:
        """Memory in all, and what of it is used."""
        memory = Memory()
        self._nvml.call("nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(memory))
        return int(memory.total), int(memory.used)

    def persistence(self) -> Optional[bool]:
        """Whether the driver keeps the GPU ready when nobody uses it."""
        found = self._or_none("nvmlDeviceGetPersistenceMode")
        return None if found is None else bool(found)

    def is_partitioned(self) -> bool:
        """Whether MIG is on."""
        try:
            return self._nvml.pair("nvmlDeviceGetMigMode", self._handle)[0] != 0
        except NvmlError:
            return False

    def processes(self) -> List[Process]:
        """Programs that compute on it; a display's are none of them. Empty where the driver does not say."""
        for version in ("_v3", "_v2"):
            try:
                found = self._array("nvmlDeviceGetComputeRunningProcesses" + version, ProcessInfo)
            except NvmlError as error:
                if error.code not in _UNUSABLE:
                    raise
                continue
            unknown = 2**64 - 1
            return [Process(int(one.pid), None if one.used_bytes == unknown else int(one.used_bytes)) for one in found]
        return []

    def _number(self, name: str, *arguments: Any) -> int:
        return self._nvml.number(name, self._handle, *arguments)

    def _or_none(self, name: str, *arguments: Any) -> Optional[int]:
        """A number, or None where this GPU or driver has none; a GPU that is lost is still an error."""
        try:
            return self._number(name, *arguments)
        except NvmlError as error:
            if error.code in _UNUSABLE:
                return None
            raise

    def _list(self, name: str, *arguments: Any) -> List[int]:
        return [int(number) for number in self._array(name, ctypes.c_uint, *arguments)]

    def _array(self, name: str, kind: Any, *arguments: Any) -> List[Any]:
        """What a function puts into an array whose length it tells beforehand."""
        room = 0
        for _ in range(_ATTEMPTS):
            count = ctypes.c_uint(room)
            found = (kind * room)() if room else None
            try:
                self._nvml.call(name, self._handle, *arguments + (ctypes.byref(count), found))
                return list(found[: count.value]) if found is not None else []
            except NvmlError as error:
                if error.code != INSUFFICIENT_SIZE:
                    raise
            room = count.value + 4
        raise NvmlError(INSUFFICIENT_SIZE, name, "the list grew while it was read")
