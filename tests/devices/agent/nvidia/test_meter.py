"""Power and energy as NVML reads them."""

from __future__ import annotations

import pytest

from devices.agent.clock import Clock
from devices.agent.meter import MeterFault
from devices.agent.nvidia.board import Nvidia
from devices.agent.nvidia.meter import AVERAGE_LAG_S, INSTANT_LAG_S, NvmlEnergy, NvmlMeter
from tests.devices.agent.nvidia.fake import FakeGpu, FakeNvml
from tests.devices.agent.nvidia.support import Make, gpu_of


@pytest.mark.parametrize(
    ("gpu", "watts", "lag_s", "noted"),
    [
        (FakeGpu(), 402.5, INSTANT_LAG_S, False),
        (FakeGpu(instant_type=3), 402.5, INSTANT_LAG_S, False),
        (FakeGpu(instant_mw=None), 431.0, AVERAGE_LAG_S, True),
        (FakeGpu(instant_mw=0), 431.0, AVERAGE_LAG_S, True),
        (FakeGpu(architecture=7, capability=(8, 6), instant_mw=None), 431.0, AVERAGE_LAG_S, True),
        (FakeGpu(architecture=7, capability=(8, 0), instant_mw=9), 431.0, INSTANT_LAG_S, False),  # GA100
        (FakeGpu(architecture=5, capability=(7, 0), instant_mw=9), 431.0, INSTANT_LAG_S, False),
        (FakeGpu(architecture=None, instant_mw=None), 431.0, AVERAGE_LAG_S, True),
    ],
)
def test_power_in_watts_and_its_lag(gpu: FakeGpu, watts: float, lag_s: float, noted: bool) -> None:
    meter = NvmlMeter(gpu_of(FakeNvml(gpu)))
    assert meter.read() == (watts, {"GPU board": watts})
    assert meter.name == "GPU board power (NVML)"
    assert meter.lag_s == lag_s
    assert (meter.note is not None) is noted
    assert meter.describe() == [{"rail": "GPU board", "watts": watts, "is_total": True}]


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (FakeGpu(power_mw=None, instant_mw=None), "NVML_ERROR_NOT_SUPPORTED"),
        (FakeGpu(power_mw=0, instant_mw=None), "reads 0 W"),
        (FakeGpu(name="Orin (nvgpu)"), "a Jetson's GPU"),
    ],
)
def test_no_power_is_a_reason_never_0_watts(gpu: FakeGpu, words: str, make: Make) -> None:
    with pytest.raises(MeterFault) as caught:
        NvmlMeter(gpu_of(FakeNvml(gpu)))
    assert words in str(caught.value)
    if not gpu.name.startswith("Orin"):
        board = Nvidia(make(FakeNvml(gpu)), Clock())
        assert board.meter is None
        assert any(words in problem.what for problem in board.problems())


def test_a_meter_that_fails_later() -> None:
    library = FakeNvml()
    meter = NvmlMeter(gpu_of(library))
    library.errors["nvmlDeviceGetFieldValues"] = 15
    with pytest.raises(MeterFault, match="NVML_ERROR_GPU_IS_LOST"):
        meter.read()
    assert meter.describe()[0]["watts"] is None


def test_energy_in_joules() -> None:
    gpu = FakeGpu(energy_mj=5_000)
    energy = NvmlMeter(gpu_of(FakeNvml(gpu))).energy
    assert energy is not None
    assert energy.read_j() == 5.0
    assert NvmlEnergy.used_j((10.0, 5.0), (12.0, 805.0)) == 800.0
    for begin, end, words in (
        ((0.0, 1.0), (1.9, 2.0), "too short"),
        ((0.0, 9.0), (3.0, 2.0), "began anew"),
        ((0.0, 9.0), (3.0, 9.0), "stands still"),
    ):
        with pytest.raises(MeterFault, match=words):
            NvmlEnergy.used_j(begin, end)
    for broken in (0, None):
        assert NvmlMeter(gpu_of(FakeNvml(FakeGpu(energy_mj=broken)))).energy is None
