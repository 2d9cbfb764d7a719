"""The check of a real GPU, as far as it can be tried without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from devices.agent.clock import Clock
from devices.agent.meter import MeterFault
from devices.agent.nvidia.gpu import Gpu
from devices.agent.nvidia.library import Nvml
from devices.agent.nvidia.meter import NvmlMeter
from devices.errors import TunerError
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow, read_profile, write_profile
from devices.replay import ReplayDevice
from experiments.gpu_check import compare_energy, find_gpu, main, run_study, settings_of
from tests.devices.agent.nvidia.fake import FakeGpu, FakeNvml
from tests.devices.agent.nvidia.support import gpu_of
from tuner.record import profile_of


class RunningGpu(Gpu):
    """A GPU that draws 402.5 W and counts `counted` of it."""

    counted = 1.0
    clock = Clock(20.0)

    def energy_mj(self) -> int:
        return int(402_500 * self.counted * self.clock.monotonic())


@pytest.mark.parametrize(("counted", "difference"), [(1.0, 0.0), (0.8, 0.25)])
def test_energy_is_compared(counted: float, difference: float) -> None:
    gpu = RunningGpu(Nvml(FakeNvml()), 0)
    gpu.counted = counted
    found = compare_energy(NvmlMeter(gpu), gpu.clock)
    assert found.mean_w == pytest.approx(402.5)
    assert found.difference == pytest.approx(difference, abs=0.01)
    assert found.samples > 20
    assert "402.5 W" in found.text("idle")


@pytest.mark.parametrize(("energy_mj", "words"), [(None, "no energy counter"), (7, "stands still")])
def test_energy_that_cannot_be_told_is_a_reason(energy_mj: int | None, words: str) -> None:
    with pytest.raises(MeterFault, match=words):
        compare_energy(NvmlMeter(gpu_of(FakeNvml(FakeGpu(energy_mj=energy_mj)))), Clock(20.0))


@pytest.mark.parametrize(
    ("library", "words"),
    [(FakeNvml(FakeGpu("Orin (nvgpu)")), "Jetson's GPU"), (FakeNvml(), "hides every GPU")],
)
def test_without_a_gpu_it_is_skipped_with_a_reason(
    library: FakeNvml, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nvml, "open", lambda: Nvml(library))
    if "hides" in words:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 0
    assert "skipped, there is no NVIDIA GPU to check" in done.output
    assert words in done.output


def test_without_a_driver_it_is_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.nvidia.library.LIBRARY", "libnvidia-ml-that-is-not.so.1")
    done = CliRunner().invoke(main, [])
    assert (done.exit_code, "NVML_ERROR_LIBRARY_NOT_FOUND" in done.output) == (0, True)


def test_settings_are_only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml()
    monkeypatch.setattr(Nvml, "open", lambda: Nvml(library))
    gpu = find_gpu()
    assert isinstance(gpu, Gpu)
    before = settings_of(gpu)
    assert before["power limit, mW"] == 700_000
    assert not [name for name in library.calls if "Set" in name or "Reset" in name]
    library.gpus[0].limit_mw = 1
    assert settings_of(gpu) != before


Rows = Callable[[str], ReplayDevice]


@pytest.fixture
def recorded() -> Rows:
    def device(knob: str) -> ReplayDevice:
        rows = tuple(
            ProfileRow({knob: size}, Status.OK, throughput=100.0 * size, power_p95_w=90.0 + 10 * size)
            for size in (1, 2, 4, 8, 16)
        )
        return ReplayDevice(Profile(ProfileMetadata(device="Some GPU"), (knob,), rows))

    return device


def test_a_study_finds_the_largest_batch_under_the_cap(recorded: Rows, tmp_path: Path) -> None:
    study, outcome = run_study(recorded("batch_size"), 135.0, "resnet18", 60.0)
    assert outcome.verdict.recommended is not None
    assert outcome.verdict.recommended.setting == {"batch_size": 4}
    path = tmp_path / "gpu.csv"
    write_profile(profile_of(outcome, study.workload), path)
    assert {row.setting["batch_size"] for row in read_profile(path).rows} >= {4, 8}


def test_a_study_ends_when_its_time_is_over(recorded: Rows) -> None:
    _, outcome = run_study(recorded("batch_size"), 135.0, "resnet18", 0.0)
    assert len([trial for trial in outcome.trials if trial.measurement]) < 5


def test_another_knob_is_never_searched(recorded: Rows) -> None:
    with pytest.raises(TunerError, match="only the batch size may be searched here, not gpu_freq_mhz"):
        run_study(recorded("gpu_freq_mhz"), 135.0, "resnet18", 60.0)
