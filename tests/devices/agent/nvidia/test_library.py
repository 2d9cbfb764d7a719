"""NVML itself: errors with names, units, old drivers, and which GPU is meant."""

from __future__ import annotations

import pytest

from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.agent.nvidia.board import Nvidia
from devices.agent.nvidia.library import NAMES, Nvml, NvmlError
from devices.agent.nvidia.select import select_gpu
from devices.agent.sysfs import SysFs
from tests.devices.agent.nvidia.fake import FakeGpu, FakeNvml
from tests.devices.agent.nvidia.support import gpu_of


@pytest.mark.parametrize("code", [*sorted(NAMES), 77])
def test_every_error_has_a_name_words_and_a_mend(code: int) -> None:
    library = FakeNvml()
    library.errors["nvmlInit_v2"] = code
    with pytest.raises(NvmlError) as caught:
        Nvml(library)
    assert caught.value.code == code
    assert caught.value.name == NAMES.get(code, "NVML error 77")
    assert caught.value.name in caught.value.reason
    assert "nvmlInit_v2: " in caught.value.reason
    assert caught.value.mend


def test_words_come_from_nvml() -> None:
    library = FakeNvml()
    library.errors["nvmlInit_v2"] = 9
    with pytest.raises(NvmlError, match=r"Driver Not Loaded \(NVML_ERROR_DRIVER_NOT_LOADED\)") as caught:
        Nvml(library)
    assert "modprobe nvidia" in caught.value.mend


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.nvidia.library.LIBRARY", "libnvidia-ml-that-is-not.so.1")
    with pytest.raises(NvmlError) as caught:
        Nvml.open()
    assert caught.value.name == "NVML_ERROR_LIBRARY_NOT_FOUND"
    assert caught.value.reason.count("libnvidia-ml-that-is-not.so.1") == 1
    with pytest.raises(AgentError, match="NVML_ERROR_LIBRARY_NOT_FOUND") as refused:
        Nvidia(SysFs(), Clock())
    assert refused.value.kind == "device"
    assert "--gpus all" in (refused.value.hint or "")


def test_an_old_driver_lacks_functions() -> None:
    library = FakeNvml(FakeGpu(reasons=0x4))
    library.missing = {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3"}
    gpu = gpu_of(library)
    assert gpu.event_reasons() == 0x4
    assert gpu.processes() == []
    library.missing.add("nvmlDeviceGetPowerUsage")
    with pytest.raises(NvmlError) as caught:
        gpu.power_mw()
    assert caught.value.name == "NVML_ERROR_FUNCTION_NOT_FOUND"


def test_what_nvml_says_of_a_gpu() -> None:
    gpu = gpu_of(FakeNvml(FakeGpu(processes=[(4321, 7 * 2**20), (99, 2**64 - 1)])))
    assert (gpu.name, gpu.uuid, gpu.driver()) == ("NVIDIA H200", "GPU-aaaa-1", "580.65.06")
    assert gpu.memory_bytes() == (150_000_000_000, 600_000_000)
    assert (gpu.power_mw(), gpu.instant_power_mw(), gpu.energy_mj()) == (431_000, 402_500, 3_000_000_000_123)
    assert gpu.power_limits_mw() == (200_000, 700_000)
    assert gpu.graphics_clocks_mhz() == list(range(345, 1981, 15))
    assert (gpu.clock_mhz(), gpu.max_clock_mhz(2)) == (1980, 3201)
    assert (gpu.temperature_c(), gpu.temperature_limit_c()) == (41, 89)
    assert (gpu.persistence(), gpu.is_partitioned()) == (True, False)
    assert [(one.pid, one.used_bytes) for one in gpu.processes()] == [(4321, 7 * 2**20), (99, None)]


@pytest.mark.parametrize(
    ("visible", "order", "found"),
    [
        (None, None, "GPU-aaaa-1"),
        ("1", "PCI_BUS_ID", "GPU-bbbb-2"),
        ("1,0", None, "GPU-bbbb-2"),
        ("GPU-bbbb", None, "GPU-bbbb-2"),
    ],
)
def test_the_gpu_that_cuda_sees(visible: str | None, order: str | None, found: str) -> None:
    nvml = Nvml(FakeNvml(FakeGpu(), FakeGpu(name="NVIDIA A2", uuid="GPU-bbbb-2")))
    environment = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": order}
    gpu, doubt = select_gpu(nvml, {name: text for name, text in environment.items() if text is not None})
    assert gpu.uuid == found
    if order or (visible or "").startswith("GPU-"):
        assert doubt is None
    else:
        assert doubt is not None
        assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in doubt.mend
    alike = Nvml(FakeNvml(FakeGpu(), FakeGpu(uuid="GPU-bbbb-2")))
    assert select_gpu(alike, {"CUDA_VISIBLE_DEVICES": "1"})[1] is None


@pytest.mark.parametrize("visible", ["", "-1", "7", "GPU-", "GPU-cccc", "MIG-aaaa", "none", "\N{SUPERSCRIPT TWO}"])
def test_no_visible_gpu_is_said(visible: str) -> None:
    nvml = Nvml(FakeNvml(FakeGpu(), FakeGpu(uuid="GPU-bbbb-2")))
    with pytest.raises(AgentError, match="CUDA_VISIBLE_DEVICES") as caught:
        select_gpu(nvml, {"CUDA_VISIBLE_DEVICES": visible})
    assert caught.value.hint
