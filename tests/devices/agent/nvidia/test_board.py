"""A GPU as a device: what is said of it, what is wrong, what ends a burst."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devices.agent.board import Board, Fault, Watch
from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.agent.nvidia.board import Nvidia, NvidiaWatch
from tests.devices.agent.nvidia.fake import FakeGpu, FakeNvml
from tests.devices.agent.nvidia.support import Make, gpu_of, put


def test_the_stub_of_a_jetson_is_refused(make: Make) -> None:
    stub = FakeGpu(
        "Orin (nvgpu)", power_mw=None, instant_mw=None, energy_mj=None, limit_mw=None, reasons=None, clocks={}
    )
    with pytest.raises(AgentError, match=r"Orin \(nvgpu\) is a Jetson's GPU") as caught:
        Nvidia(make(FakeNvml(stub)), Clock())
    assert caught.value.kind == "device"
    assert "jetson" in (caught.value.hint or "")


def test_what_is_said_of_a_board(make: Make) -> None:
    board: Board = Nvidia(make(FakeNvml()), Clock())
    described = board.describe()
    assert described["model"] == "NVIDIA H200"
    assert described["always"] == ["gpu_freq_mhz"]
    assert board.torch_device == "cuda"
    assert described["source"] == "measured"
    assert described["meter"] == "GPU board power (NVML)"
    assert described["statistics"] == ["p95", "peak", "mean"]
    assert [knob["default"] for knob in described["knobs"]] == [1980, 700]
    assert described["held_fixed"] == {
        "gpu_uuid": "GPU-aaaa-1",
        "driver": "580.65.06",
        "gpu_max_mhz": 1980,
        "memory_max_mhz": 3201,
        "persistence": True,
    }
    assert isinstance(board, Nvidia)
    identity = board.identity()
    assert (identity["memory_total_bytes"], identity["memory_used_bytes"]) == (150_000_000_000, 600_000_000)
    assert (identity["index"], identity["mig"], identity["temperature_c"]) == (0, False, 41)


def test_mig_other_processes_and_heat_are_problems(make: Make, tmp_path: Path) -> None:
    put(tmp_path, "proc/501/stat", f"501 (py thon) S {os.getpid()} 1")
    put(tmp_path, "proc/502/stat", "502 (x) S 501 1")
    put(tmp_path, "proc/900/stat", "900 (game) S 1 1")
    put(tmp_path, "proc/900/comm", "game")
    processes = [(os.getpid(), 1), (501, 1), (502, 1), (900, 300 * 2**20), (77777, 2**64 - 1)]
    board = Nvidia(make(FakeNvml(FakeGpu(mig=1, reasons=0x40, processes=processes))), Clock())
    words = [problem.what for problem in board.problems()]
    assert words[1:] == [
        "another process uses the GPU: 900 (game, 300 MiB)",
        "another process uses the GPU: 77777",
        "the GPU slowed itself down: too hot (hardware)",
    ]
    assert words[0].startswith("MIG is on")


def test_gpus_without_mig_or_a_list_of_processes(make: Make) -> None:
    library = FakeNvml(FakeGpu(mig=None))
    board = Nvidia(make(library), Clock())
    assert board.problems() == []
    library.errors["nvmlDeviceGetComputeRunningProcesses_v3"] = 4
    assert board.problems() == []


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"reasons": 0x4}, None, ""),
        ({"reasons": 0x3}, None, ""),
        ({"reasons": 0x48}, "throttled", "too hot (hardware), hardware slowdown"),
        ({"reasons": 0x80}, "throttled", "external power brake"),
        ({"temperature_c": 88}, None, ""),
        ({"temperature_c": 89}, "throttled", "reached 89 C, it slows down at 89 C"),
        ({"limit_mw": 300_000}, "clock_not_applied", "from 700 to 300 W"),
    ],
)
def test_what_ends_a_burst(change: dict[str, int], status: str | None, words: str) -> None:
    gpu = FakeGpu()
    watch = NvidiaWatch(gpu_of(FakeNvml(gpu)), Watch())
    assert watch.fault(100.0) is None
    for name, value in change.items():
        setattr(gpu, name, value)
    fault = watch.fault(100.0)
    assert (fault.status if fault else None) == status
    assert words in (fault.reason if fault else "")
    gpu.reasons, gpu.temperature_c, gpu.limit_mw = 0, 41, 700_000
    assert watch.fault(None) == fault  # the first stays


def test_a_gpu_that_fell_off_its_bus_ends_a_burst() -> None:
    library = FakeNvml()
    watch = NvidiaWatch(gpu_of(library), Watch())
    library.errors["nvmlDeviceGetCurrentClocksEventReasons"] = 15
    fault = watch.fault(None)
    assert fault is not None
    assert fault.status == "crashed"
    assert "NVML_ERROR_GPU_IS_LOST" in fault.reason


class Swapping(Watch):
    """A machine that fetched its memory back from the disk."""

    def fault(self, power_w: float | None) -> Fault | None:
        return Fault("throttled", "the machine swapped")

    def verdict(self, slowed: float) -> Fault | None:
        return Fault("throttled", f"slower by {slowed}")


def test_the_machine_around_the_gpu_is_watched_too() -> None:
    watch = NvidiaWatch(gpu_of(FakeNvml()), Swapping())
    assert watch.fault(1.0) == Fault("throttled", "the machine swapped")
    assert watch.verdict(0.5) == Fault("throttled", "slower by 0.5")


def test_the_meter_of_the_user_takes_the_place_of_nvml(make: Make) -> None:
    board = Nvidia(make(FakeNvml()), Clock(), "sh -c 'while echo 55; do sleep 0.1; done'")
    assert board.meter is not None
    assert board.meter.read()[0] == 55
    board.meter.close()
    assert Nvidia(make(FakeNvml()), Clock(), "false").meter is None


def test_describing_and_watching_change_nothing(make: Make) -> None:
    library = FakeNvml()
    board = Nvidia(make(library), Clock())
    board.describe()
    board.problems()
    board.identity()
    for watch in board.watches():
        watch.fault(1.0)
    assert not [name for name in library.calls if "Set" in name or "Reset" in name]
