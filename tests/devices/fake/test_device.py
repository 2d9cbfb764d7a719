"""A fake board as a device: the agent's own code keeps the contract, and a study finds what the emulation finds."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from devices.catalog import find_board
from devices.device import BurstPlan, Device, Setting, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.errors import DeviceLostError
from devices.fake.board import FakeBoard
from devices.fake.link import fake_device
from devices.fake.turns import TurnClock
from devices.measurement import Status
from tuner import Study
from tuner.store import MemoryStore

pytest.register_assert_rewrite("devices.testing")
from devices.testing import DeviceContract  # noqa: E402

WORKLOAD = WorkloadSpec("resnet18")
PRESET = "2C-730-EMC665"


class TestFakeBoard(DeviceContract):
    repeatable = False

    @pytest.fixture(params=["jetson-orin-nano", "jetson-nano"])
    def device(self, request: pytest.FixtureRequest) -> Iterator[Device]:
        with fake_device(FakeBoard(request.param, clock=TurnClock()), WORKLOAD) as device:
            yield device

    @pytest.fixture
    def setting(self, device: Device) -> Setting:
        return {"gpu_freq_mhz": device.describe().knobs[0].values[0], "batch_size": 4}

    @pytest.fixture
    def workload(self) -> WorkloadSpec:
        return WORKLOAD


def state(board: FakeBoard) -> dict[str, str]:
    names = ["/sys/devices/system/cpu/online", "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked"]
    names += [f"/sys/class/devfreq/17000000.ga10b/{name}" for name in ("min_freq", "max_freq")]
    names += [f"/sys/devices/system/cpu/cpufreq/policy0/scaling_{name}_freq" for name in ("min", "max")]
    return {name: board.read(name) for name in names}


def test_a_study_finds_what_the_emulation_says_is_best() -> None:
    board = FakeBoard("jetson-orin-nano", clock=TurnClock())
    before = state(board)
    with fake_device(board, WORKLOAD, preset=PRESET) as device:
        with Study(device, WORKLOAD, cap_w=7.0, baseline=False) as study:
            recommended = study.run().verdict.recommended
        assert state(board) != before
    assert state(board) == before
    catalog = find_board("jetson-orin-nano")
    assert catalog is not None
    emulated = EmulatedDevice(catalog, preset=PRESET)
    held = [
        found.throughput or 0.0
        for setting in emulated.describe().enumerate_settings()
        if (found := emulated.predict(setting, WORKLOAD)).ok and (found.power_p95_w or 99) <= 0.98 * 7
    ]
    assert recommended is not None
    assert recommended.power is not None
    assert recommended.power.value <= 7.0
    assert (emulated.predict(recommended.setting, WORKLOAD).throughput or 0.0) >= 0.97 * max(held)


def test_a_board_that_reboots_is_lost_and_the_same_study_goes_on() -> None:
    board, store = FakeBoard("jetson-orin-nano", clock=TurnClock(), faults=["lost@3:5"]), MemoryStore()

    def study(device: Device) -> Study:
        return Study(device, WORKLOAD, cap_w=7.0, baseline=False, store=store, bursts=8)

    with (
        fake_device(board, WORKLOAD, preset=PRESET) as device,
        study(device) as begun,
        pytest.raises(DeviceLostError, match="stopped answering"),
    ):
        begun.run()
    made = len(begun.trials)
    assert made >= 3
    assert begun.trials[-1].pending
    with fake_device(board, WORKLOAD, preset=PRESET) as device, study(device) as resumed:
        outcome = resumed.run()
    assert [trial.setting for trial in outcome.trials[:made]] == [trial.setting for trial in begun.trials]
    assert outcome.trials[made - 1].status in (Status.OK, Status.OOM)
    assert outcome.verdict.recommended is not None


def test_one_burst_that_a_fault_hits_is_made_again() -> None:
    board = FakeBoard("jetson-orin-nano", clock=TurnClock(), faults=["throttle-alert@1:6"])
    with (
        fake_device(board, WORKLOAD, preset=PRESET) as device,
        Study(device, WORKLOAD, cap_w=7.0, baseline=False, bursts=4) as study,
    ):
        first = study.run().trials[0]
    assert (first.status, first.attempts) == (Status.OK, 2)


@pytest.mark.parametrize(
    ("model", "preset", "words", "cores"),
    [
        ("raspberry-pi-5", "3C", None, 3),
        ("jetson-tx2", "MAXQ", None, 4),
        ("jetson-tx2", "MAXN", "cpu_cores 6 (held at 4), cpu_freq_mhz 2035.2 (held at 1881.6)", 4),
    ],
)
def test_what_of_a_preset_is_not_held_is_said(model: str, preset: str, words: str | None, cores: int) -> None:
    board = FakeBoard(model, preset="MAXP_CORE_ARM" if model == "jetson-tx2" else None, clock=TurnClock())
    with fake_device(board, WORKLOAD, preset=preset) as device:
        info = device.describe()
        said = [note for note in info.notes if "preset" in note]
        assert said == [] if words is None else words in said[0]
        assert info.held_fixed["cpu_cores"] == cores
        if model == "jetson-tx2":
            device.measure({"gpu_freq_mhz": info.knobs[0].values[0], "batch_size": 4}, WORKLOAD, BurstPlan())
            assert board.read("/sys/devices/system/cpu/online") == "0,3-5\n"  # the Denver cores stay off


def test_a_preset_on_a_board_without_its_knob() -> None:
    board = FakeBoard("jetson-orin-nano", clock=TurnClock())
    lock = "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked"
    board.files.errors[lock] = errno.ENOENT
    with fake_device(board, WORKLOAD, preset=PRESET) as device:
        info = device.describe()
        assert "the preset is not held in full: emc_freq_mhz 665.6 (this board cannot set it)" in info.notes
        assert "emc_freq_mhz" not in info.held_fixed


def test_a_gpu_whose_clock_is_never_told_holds_none() -> None:
    board = FakeBoard("jetson-orin-nano", clock=TurnClock())
    board.files.errors[board.files.canonical("/sys/class/devfreq/17000000.ga10b/cur_freq")] = errno.EAGAIN
    with fake_device(board, WORKLOAD) as device:
        found = device.measure({"gpu_freq_mhz": 306, "batch_size": 4}, WORKLOAD, BurstPlan())
    assert found.status is Status.CLOCK_NOT_APPLIED
    assert (found.reason or "").startswith("the GPU's clock cannot be read while it works")


def test_a_burst_far_above_the_cap_is_ended() -> None:
    with fake_device(FakeBoard("jetson-orin-nano", clock=TurnClock()), WORKLOAD) as device:
        found = device.measure({"gpu_freq_mhz": 624.75, "batch_size": 64}, WORKLOAD, BurstPlan(cap_w=7.0))
    assert found.status is Status.OVER_CAP
    assert found.reason == "more than 10% above the cap of 7 W for 2 s"
    assert (found.power_mean_w or 0) > 7.7
    assert found.cost_s < 12
