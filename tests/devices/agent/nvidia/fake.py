"""A libnvidia-ml that never was: its functions are real C functions with the C types of NVML's header, so that a wrong
declaration shows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass, field
from typing import Any

NOT_SUPPORTED = 3
FIRST_HANDLE = 0x1000


class CMemory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class CProcess(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = (("pid", c_uint), ("usedGpuMemory", c_ulonglong), ("gpuInstanceId", c_uint), ("computeId", c_uint))


class CField(ctypes.Structure):
    """nvmlFieldValue_t; its union is eight bytes."""

    _fields_ = (
        ("fieldId", c_uint),
        ("scopeId", c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", c_int),
        ("nvmlReturn", c_int),
        ("value", c_ulonglong),
    )


_D = c_void_p  # nvmlDevice_t
_U = POINTER(c_uint)
_LL = POINTER(c_ulonglong)
_TEXT = POINTER(ctypes.c_char)
_HEADER: dict[str, tuple[Any, ...]] = {
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (_TEXT, c_uint),
    "nvmlDeviceGetCount_v2": (_U,),
    "nvmlDeviceGetHandleByIndex_v2": (c_uint, POINTER(_D)),
    "nvmlDeviceGetName": (_D, _TEXT, c_uint),
    "nvmlDeviceGetUUID": (_D, _TEXT, c_uint),
    "nvmlDeviceGetArchitecture": (_D, _U),
    "nvmlDeviceGetCudaComputeCapability": (_D, POINTER(c_int), POINTER(c_int)),
    "nvmlDeviceGetMemoryInfo": (_D, POINTER(CMemory)),
    "nvmlDeviceGetPersistenceMode": (_D, _U),
    "nvmlDeviceGetMigMode": (_D, _U, _U),
    "nvmlDeviceGetComputeRunningProcesses_v3": (_D, _U, POINTER(CProcess)),
    "nvmlDeviceGetSupportedMemoryClocks": (_D, _U, _U),
    "nvmlDeviceGetSupportedGraphicsClocks": (_D, c_uint, _U, _U),
    "nvmlDeviceGetClockInfo": (_D, c_int, _U),
    "nvmlDeviceGetMaxClockInfo": (_D, c_int, _U),
    "nvmlDeviceSetGpuLockedClocks": (_D, c_uint, c_uint),
    "nvmlDeviceResetGpuLockedClocks": (_D,),
    "nvmlDeviceGetPowerUsage": (_D, _U),
    "nvmlDeviceGetFieldValues": (_D, c_int, POINTER(CField)),
    "nvmlDeviceGetTotalEnergyConsumption": (_D, _LL),
    "nvmlDeviceGetPowerManagementLimit": (_D, _U),
    "nvmlDeviceGetPowerManagementLimitConstraints": (_D, _U, _U),
    "nvmlDeviceGetEnforcedPowerLimit": (_D, _U),
    "nvmlDeviceSetPowerManagementLimit": (_D, c_uint),
    "nvmlDeviceGetCurrentClocksEventReasons": (_D, _LL),
    "nvmlDeviceGetCurrentClocksThrottleReasons": (_D, _LL),
    "nvmlDeviceGetTemperature": (_D, c_int, _U),
    "nvmlDeviceGetTemperatureThreshold": (_D, c_int, _U),
}


@dataclass
class FakeGpu:
    """State of one GPU, in NVML's units; None and missing functions are not supported."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-aaaa-1"
    architecture: int | None = 9
    capability: tuple[int, int] = (9, 0)
    power_mw: int | None = 431_000
    instant_mw: int | None = 402_500
    instant_type: int = 1
    energy_mj: int | None = 3_000_000_000_123
    limits_mw: tuple[int, int] = (200_000, 700_000)
    limit_mw: int | None = 700_000
    enforced_mw: int | None = None
    memory_clocks: tuple[int, ...] = (1593, 3201)
    graphics_clocks: tuple[int, ...] = tuple(range(1980, 344, -15))
    clocks: dict[int, int] = field(default_factory=lambda: {1: 1980, 2: 3201})
    locked: tuple[int, int] | None = None
    reasons: int | None = 0
    temperature_c: int | None = 41
    thresholds_c: dict[int, int] = field(default_factory=lambda: {0: 95, 1: 92, 3: 89})
    memory: tuple[int, int] = (150_000_000_000, 600_000_000)
    persistence: int = 1
    mig: int | None = 0
    processes: list[tuple[int, int]] = field(default_factory=list)


_NUMBERS: dict[str, Callable[..., int | None]] = {
    "nvmlDeviceGetArchitecture": lambda gpu: gpu.architecture,
    "nvmlDeviceGetPersistenceMode": lambda gpu: gpu.persistence,
    "nvmlDeviceGetClockInfo": lambda gpu, kind: gpu.clocks.get(kind),
    "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: {1: 1980, 2: 3201}.get(kind),
    "nvmlDeviceGetPowerUsage": lambda gpu: gpu.power_mw,
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: gpu.energy_mj,
    "nvmlDeviceGetPowerManagementLimit": lambda gpu: gpu.limit_mw,
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: gpu.limit_mw if gpu.enforced_mw is None else gpu.enforced_mw,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: gpu.reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: gpu.reasons,
    "nvmlDeviceGetTemperature": lambda gpu, kind: gpu.temperature_c if kind == 0 else None,
    "nvmlDeviceGetTemperatureThreshold": lambda gpu, kind: gpu.thresholds_c.get(kind),
}
"""Functions that give one number, by what they give."""


class FakeNvml:
    """The library.

    Attributes:
        gpus: Its GPUs.
        errors: Codes that functions return instead of doing anything.
        missing: Functions that an older driver does not have.
        calls: Names of those called, in order.
    """

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = list(gpus) or [FakeGpu()]
        self.errors: dict[str, int] = {}
        self.missing: set[str] = set()
        self.calls: list[str] = []
        self._kept: dict[str, Any] = {}
        self._texts: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.missing or not (name in _HEADER or name == "nvmlErrorString"):
            raise AttributeError(name)
        if name not in self._kept:
            if name == "nvmlErrorString":
                self._kept[name] = CFUNCTYPE(c_void_p, c_int)(self._words)
            else:
                self._kept[name] = CFUNCTYPE(c_int, *_HEADER[name])(self._wrapped(name))
        return self._kept[name]

    def _words(self, code: int) -> int:
        words = {4: "Insufficient Permissions", 9: "Driver Not Loaded", 3: "Not Supported"}
        kept = self._texts.setdefault(code, c_char_p(words.get(code, f"words of {code}").encode()))
        return ctypes.cast(kept, c_void_p).value or 0

    def _wrapped(self, name: str) -> Callable[..., int]:
        def function(*arguments: Any) -> int:
            self.calls.append(name)
            if name in self.errors:
                return self.errors[name]
            if name in ("nvmlInit_v2", "nvmlShutdown"):
                return 0
            values = list(arguments)
            if _HEADER[name][0] is _D:
                values[0] = self.gpus[values[0] - FIRST_HANDLE]
            if name in _NUMBERS:
                return _put(_NUMBERS[name](*values[:-1]), values[-1])
            return int(getattr(self, "_" + name[4:])(*values) or 0)

        return function

    def _SystemGetDriverVersion(self, text: Any, room: int) -> int:  # noqa: N802
        return _put_text("580.65.06", text, room)

    def _DeviceGetCount_v2(self, count: Any) -> None:  # noqa: N802
        count[0] = len(self.gpus)

    def _DeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:  # noqa: N802
        if index >= len(self.gpus):
            return 2
        handle[0] = FIRST_HANDLE + index
        return 0

    def _DeviceGetName(self, gpu: FakeGpu, text: Any, room: int) -> int:  # noqa: N802
        return _put_text(gpu.name, text, room)

    def _DeviceGetUUID(self, gpu: FakeGpu, text: Any, room: int) -> int:  # noqa: N802
        return _put_text(gpu.uuid, text, room)

    def _DeviceGetCudaComputeCapability(self, gpu: FakeGpu, major: Any, minor: Any) -> None:  # noqa: N802
        major[0], minor[0] = gpu.capability

    def _DeviceGetMemoryInfo(self, gpu: FakeGpu, memory: Any) -> None:  # noqa: N802
        memory[0].total, memory[0].used = gpu.memory
        memory[0].free = gpu.memory[0] - gpu.memory[1]

    def _DeviceGetMigMode(self, gpu: FakeGpu, now: Any, pending: Any) -> int:  # noqa: N802
        return _put(gpu.mig, now) or _put(gpu.mig, pending)

    def _DeviceGetComputeRunningProcesses_v3(self, gpu: FakeGpu, count: Any, found: Any) -> int:  # noqa: N802
        room, count[0] = count[0], len(gpu.processes)
        if room < len(gpu.processes):
            return 7
        for i, (pid, used) in enumerate(gpu.processes):
            found[i].pid, found[i].usedGpuMemory = pid, used
        return 0

    def _DeviceGetSupportedMemoryClocks(self, gpu: FakeGpu, count: Any, found: Any) -> int:  # noqa: N802
        return _put_list(gpu.memory_clocks, count, found)

    def _DeviceGetSupportedGraphicsClocks(self, gpu: FakeGpu, memory: int, count: Any, found: Any) -> int:  # noqa: N802
        if memory not in gpu.memory_clocks:
            return 2
        clocks = gpu.graphics_clocks if memory == max(gpu.memory_clocks) else gpu.graphics_clocks[-3:]
        return _put_list(clocks, count, found)

    def _DeviceSetGpuLockedClocks(self, gpu: FakeGpu, low: int, high: int) -> None:  # noqa: N802
        gpu.locked = (low, high)

    def _DeviceResetGpuLockedClocks(self, gpu: FakeGpu) -> None:  # noqa: N802
        gpu.locked = None

    def _DeviceGetFieldValues(self, gpu: FakeGpu, count: int, fields: Any) -> None:  # noqa: N802
        for i in range(count):
            known = fields[i].fieldId == 186 and fields[i].scopeId == 0 and gpu.instant_mw is not None
            fields[i].nvmlReturn = 0 if known else NOT_SUPPORTED
            fields[i].valueType = gpu.instant_type
            fields[i].value = gpu.instant_mw or 0

    def _DeviceGetPowerManagementLimitConstraints(self, gpu: FakeGpu, low: Any, high: Any) -> int:  # noqa: N802
        if gpu.limit_mw is None:
            return NOT_SUPPORTED
        low[0], high[0] = gpu.limits_mw
        return 0

    def _DeviceSetPowerManagementLimit(self, gpu: FakeGpu, limit: int) -> int:  # noqa: N802
        if not gpu.limits_mw[0] <= limit <= gpu.limits_mw[1]:
            return 2
        gpu.limit_mw = limit
        return 0


def _put(value: int | None, slot: Any) -> int:
    if value is None:
        return NOT_SUPPORTED
    slot[0] = value
    return 0


def _put_text(value: str, text: Any, room: int) -> int:
    data = value.encode() + b"\0"
    if len(data) > room:
        return 7
    for i, byte in enumerate(data):
        text[i] = byte
    return 0


def _put_list(values: tuple[int, ...], count: Any, found: Any) -> int:
    room, count[0] = count[0], len(values)
    if room < len(values):
        return 7
    for i, value in enumerate(values):
        found[i] = value
    return 0
