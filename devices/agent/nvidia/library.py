"""NVML, NVIDIA's management library, through ctypes: the functions that are used, and errors with a name and a mend."""

import ctypes
from typing import Any, Dict, List, Optional, Tuple

LIBRARY = "libnvidia-ml.so.1"

NOT_SUPPORTED = 3
NO_PERMISSION = 4
INSUFFICIENT_SIZE = 7
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16

NAMES = {
    1: "NVML_ERROR_UNINITIALIZED",
    2: "NVML_ERROR_INVALID_ARGUMENT",
    3: "NVML_ERROR_NOT_SUPPORTED",
    4: "NVML_ERROR_NO_PERMISSION",
    5: "NVML_ERROR_ALREADY_INITIALIZED",
    6: "NVML_ERROR_NOT_FOUND",
    7: "NVML_ERROR_INSUFFICIENT_SIZE",
    8: "NVML_ERROR_INSUFFICIENT_POWER",
    9: "NVML_ERROR_DRIVER_NOT_LOADED",
    10: "NVML_ERROR_TIMEOUT",
    11: "NVML_ERROR_IRQ_ISSUE",
    12: "NVML_ERROR_LIBRARY_NOT_FOUND",
    13: "NVML_ERROR_FUNCTION_NOT_FOUND",
    14: "NVML_ERROR_CORRUPTED_INFOROM",
    15: "NVML_ERROR_GPU_IS_LOST",
    16: "NVML_ERROR_RESET_REQUIRED",
    17: "NVML_ERROR_OPERATING_SYSTEM",
    18: "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    19: "NVML_ERROR_IN_USE",
    20: "NVML_ERROR_MEMORY",
    21: "NVML_ERROR_NO_DATA",
    22: "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED",
    23: "NVML_ERROR_INSUFFICIENT_RESOURCES",
    24: "NVML_ERROR_FREQ_NOT_SUPPORTED",
    25: "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
    26: "NVML_ERROR_DEPRECATED",
    27: "NVML_ERROR_NOT_READY",
    28: "NVML_ERROR_GPU_NOT_FOUND",
    29: "NVML_ERROR_INVALID_STATE",
    30: "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED",
    999: "NVML_ERROR_UNKNOWN",
}
_MENDS = {
    3: "this GPU or driver has no such function; a newer driver may",
    4: "run the agent as root: sudo; in a container: --cap-add SYS_ADMIN",
    8: "connect the GPU's power cables",
    9: "load NVIDIA's driver: sudo modprobe nvidia",
    12: "install NVIDIA's driver; start a container with --gpus all",
    13: "install a newer NVIDIA driver",
    15: "the GPU fell off its bus: reboot the machine, and look for Xid in dmesg",
    16: "reset the GPU: sudo nvidia-smi --gpu-reset, or reboot",
    18: "reboot: the driver was updated while its old version runs",
}
_MEND = "nvidia-smi tells more"

Device = ctypes.c_void_p
_Uint = ctypes.c_uint
_Ulonglong = ctypes.c_ulonglong
_UintP = ctypes.POINTER(ctypes.c_uint)
_UlonglongP = ctypes.POINTER(ctypes.c_ulonglong)


class Memory(ctypes.Structure):
    """nvmlMemory_t, bytes."""

    _fields_ = [("total", _Ulonglong), ("free", _Ulonglong), ("used", _Ulonglong)]


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t as versions 2 and 3 of the call fill it in."""

    _fields_ = [
        ("pid", _Uint),
        ("used_bytes", _Ulonglong),
        ("gpu_instance", _Uint),
        ("compute_instance", _Uint),
    ]


class Value(ctypes.Union):
    """nvmlValue_t; `FieldValue.value_type` tells which member holds."""

    _fields_ = [
        ("double", ctypes.c_double),
        ("uint", ctypes.c_uint),
        ("ulong", ctypes.c_ulong),
        ("ulonglong", ctypes.c_ulonglong),
        ("longlong", ctypes.c_longlong),
        ("int", ctypes.c_int),
        ("ushort", ctypes.c_ushort),
    ]


VALUE_MEMBERS = tuple(field[0] for field in Value._fields_)


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("field_id", ctypes.c_uint32),
        ("scope_id", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latency_us", ctypes.c_int64),
        ("value_type", ctypes.c_uint),
        ("result", ctypes.c_uint),
        ("value", Value),
    ]


_PROTOTYPES: Dict[str, List[Any]] = {
    "nvmlInit_v2": [],
    "nvmlShutdown": [],
    "nvmlErrorString": [_Uint],
    "nvmlSystemGetDriverVersion": [ctypes.c_char_p, _Uint],
    "nvmlDeviceGetCount_v2": [_UintP],
    "nvmlDeviceGetHandleByIndex_v2": [_Uint, ctypes.POINTER(Device)],
    "nvmlDeviceGetName": [Device, ctypes.c_char_p, _Uint],
    "nvmlDeviceGetUUID": [Device, ctypes.c_char_p, _Uint],
    "nvmlDeviceGetArchitecture": [Device, _UintP],
    "nvmlDeviceGetCudaComputeCapability": [Device, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)],
    "nvmlDeviceGetMemoryInfo": [Device, ctypes.POINTER(Memory)],
    "nvmlDeviceGetPersistenceMode": [Device, _UintP],
    "nvmlDeviceGetMigMode": [Device, _UintP, _UintP],
    "nvmlDeviceGetComputeRunningProcesses_v3": [Device, _UintP, ctypes.POINTER(ProcessInfo)],
    "nvmlDeviceGetComputeRunningProcesses_v2": [Device, _UintP, ctypes.POINTER(ProcessInfo)],
    "nvmlDeviceGetSupportedMemoryClocks": [Device, _UintP, _UintP],
    "nvmlDeviceGetSupportedGraphicsClocks": [Device, _Uint, _UintP, _UintP],
    "nvmlDeviceGetClockInfo": [Device, _Uint, _UintP],
    "nvmlDeviceGetMaxClockInfo": [Device, _Uint, _UintP],
    "nvmlDeviceSetGpuLockedClocks": [Device, _Uint, _Uint],
    "nvmlDeviceResetGpuLockedClocks": [Device],
    "nvmlDeviceGetPowerUsage": [Device, _UintP],
    "nvmlDeviceGetFieldValues": [Device, ctypes.c_int, ctypes.POINTER(FieldValue)],
    "nvmlDeviceGetTotalEnergyConsumption": [Device, _UlonglongP],
    "nvmlDeviceGetPowerManagementLimit": [Device, _UintP],
    "nvmlDeviceGetPowerManagementLimitConstraints": [Device, _UintP, _UintP],
    "nvmlDeviceGetEnforcedPowerLimit": [Device, _UintP],
    "nvmlDeviceSetPowerManagementLimit": [Device, _Uint],
    "nvmlDeviceGetCurrentClocksEventReasons": [Device, _UlonglongP],
    "nvmlDeviceGetCurrentClocksThrottleReasons": [Device, _UlonglongP],
    "nvmlDeviceGetTemperature": [Device, _Uint, _UintP],
    "nvmlDeviceGetTemperatureThreshold": [Device, _Uint, _UintP],
}


class NvmlError(Exception):
    """A call that NVML refused.

    Args:
        code: As NVML returned it.
        call: The function's name.
        words: What NVML says of the code.
    """

    def __init__(self, code: int, call: str, words: str) -> None:
        self.code = code
        self.name = NAMES.get(code, "NVML error {}".format(code))
        self.reason = "{}: {} ({})".format(call, words, self.name)
        self.mend = _MENDS.get(code, _MEND)
        super().__init__(self.reason)


class Nvml:
    """The library, initialised. Its functions may be called by several threads.

    Args:
        library: Has the nvml* functions: what ctypes loaded, or a test's own.

    Raises:
        NvmlError: it cannot be initialised.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._functions: Dict[str, Any] = {}
        self.call("nvmlInit_v2")

    @classmethod
    def open(cls) -> "Nvml":
        """This machine's NVML.

        Raises:
            NvmlError: there is none, its driver is not loaded, or this user may not use it.
        """
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            why = str(error).replace(LIBRARY + ": ", "")  # the loader may name it too
            raise NvmlError(LIBRARY_NOT_FOUND, LIBRARY, "cannot be loaded: {}".format(why)) from error
        return cls(library)

    def close(self) -> None:
        """End the use of the library. A lock of the clocks may end with it, where persistence mode is off."""
        self.call("nvmlShutdown")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            NvmlError: it does not return success, or this driver does not have it.
        """
        function = self._function(name)
        if function is None:
            raise NvmlError(FUNCTION_NOT_FOUND, name, "the driver is too old")
        code = int(function(*arguments))
        if code != 0:
            raise NvmlError(code, name, self._words(code))

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function whose last parameter is where it puts an unsigned number; that number."""
        slot = _PROTOTYPES[name][-1]._type_()
        self.call(name, *arguments + (ctypes.byref(slot),))
        return int(slot.value)

    def pair(self, name: str, *arguments: Any) -> Tuple[int, int]:
        """The same for a function that gives two numbers."""
        slots = [kind._type_() for kind in _PROTOTYPES[name][-2:]]
        self.call(name, *arguments + tuple(ctypes.byref(slot) for slot in slots))
        return int(slots[0].value), int(slots[1].value)

    def text(self, name: str, *arguments: Any) -> str:
        """The same for a function that gives a text."""
        buffer = ctypes.create_string_buffer(96)  # the longest that NVML asks for
        self.call(name, *arguments + (buffer, len(buffer)))
        return buffer.value.decode("utf-8", "replace")

    def _words(self, code: int) -> str:
        function = self._function("nvmlErrorString")
        words = function(code) if function is not None else None
        return words.decode("utf-8", "replace") if words else "unknown error"

    def _function(self, name: str) -> Optional[Any]:
        if name not in self._functions:
            try:
                function = getattr(self._library, name)
            except AttributeError:
                return None
            function.argtypes = _PROTOTYPES[name]
            function.restype = ctypes.c_char_p if name == "nvmlErrorString" else ctypes.c_uint
            self._functions[name] = function
        return self._functions[name]
