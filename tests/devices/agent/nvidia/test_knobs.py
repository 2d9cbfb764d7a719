"""Clock and power limit of a GPU: steps, rights, and whether what was set holds."""

from __future__ import annotations

import os

import pytest

from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.agent.hands import Hands
from devices.agent.nvidia.board import Nvidia
from devices.agent.nvidia.knobs import ClockKnob, PowerLimitKnob, limit_steps, thin
from devices.agent.nvidia.library import NvmlError
from tests.devices.agent.nvidia.fake import FakeGpu, FakeNvml
from tests.devices.agent.nvidia.support import CONTAINER, LIMIT, LOCK, ROOT, USER, Make, gpu_of


def test_a_long_table_is_thinned_to_real_steps(make: Make) -> None:
    knob = ClockKnob(make(FakeNvml()), gpu_of(FakeNvml()))
    assert len(knob.all_steps) == 110
    assert len(knob.steps) == 16
    assert set(knob.steps) <= set(knob.all_steps)
    assert (knob.steps[0], knob.steps[-1]) == (345.0, 1980.0)
    apart = [b - a for a, b in zip(knob.steps, knob.steps[1:], strict=False)]
    assert max(apart) - min(apart) <= 15
    assert knob.default() == 1980
    assert thin([1.0, 2.0, 3.0], 16) == [1.0, 2.0, 3.0]
    assert thin([0.0, 1.0, 2.0, 100.0], 3) == [0.0, 2.0, 100.0]


@pytest.mark.parametrize(
    ("low", "high", "now", "steps"),
    [
        (200, 700, 700, [200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700]),
        (100, 200, 115, [100, 110, 115, 120, 130, 140, 150, 160, 170, 180, 190, 200]),
        (5.5, 8.9, 8, [6, 7, 8]),
        (60, 60, 60, [60]),
        (60.2, 60.8, 60, []),
    ],
)
def test_limits_are_whole_watts(low: float, high: float, now: float, steps: list[float]) -> None:
    assert limit_steps(low, high, now) == steps


def test_the_limit_that_is_set_is_the_default(make: Make) -> None:
    library = FakeNvml(FakeGpu(limit_mw=463_500))
    knob = PowerLimitKnob(make(library), gpu_of(library))
    assert 463 in knob.steps
    assert knob.default() == 463


def test_a_fixed_limit_is_no_knob(make: Make) -> None:
    library = FakeNvml(FakeGpu(limits_mw=(60_000, 60_000), limit_mw=60_000))
    with pytest.raises(NvmlError, match="the limit is fixed"):
        PowerLimitKnob(make(library), gpu_of(library))


def test_a_held_setting_reaches_the_gpu_and_is_put_back(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.hands.Guardian", lambda command, root: Dismissed())
    gpu = FakeGpu()
    board = Nvidia(make(FakeNvml(gpu)), Clock())
    assert [knob.name for knob in board.knobs] == ["gpu_freq_mhz", "power_limit_w"]
    hands = Hands(board, Clock())
    clock = board.knobs[0].steps[3]
    assert hands.hold({"gpu_freq_mhz": clock, "power_limit_w": 300, "batch_size": 8}) is None
    assert (gpu.locked, gpu.limit_mw) == ((clock, clock), 300_000)
    gpu.clocks[1] = int(clock)
    assert hands.fault(True) is None
    assert sorted(hands.restore()) == [LOCK, LIMIT]
    assert (gpu.locked, gpu.limit_mw) == (None, 700_000)


class Dismissed:
    """A guardian that has nothing to do."""

    def dismiss(self) -> None:
        pass


@pytest.mark.parametrize("value", [346.0, 0.0, 5000.0])
def test_no_step_is_not_written(value: float, make: Make) -> None:
    gpu = FakeGpu()
    knob = ClockKnob(make(FakeNvml(gpu)), gpu_of(FakeNvml(gpu)))
    with pytest.raises(AgentError, match="has no step") as caught:
        knob.hold(value)
    assert caught.value.kind == "input"
    assert gpu.locked is None


@pytest.mark.parametrize(
    ("rights", "user", "mend"), [(USER, 1000, "sudo"), (CONTAINER, 0, "--cap-add SYS_ADMIN"), (ROOT, 0, None)]
)
def test_without_the_right_a_setting_is_held_fixed(
    rights: str, user: int, mend: str | None, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    board = Nvidia(make(FakeNvml(), rights), Clock())
    if mend is None:
        assert len(board.knobs) == 2
        assert "power_limit_w" not in board.held_fixed
        assert board.problems() == []
        return
    assert (board.knobs, board.always) == ([], [])
    assert [knob.name for knob in board.all_knobs] == ["gpu_freq_mhz", "power_limit_w"]
    assert board.held_fixed["power_limit_w"] == 700
    problems = board.problems()
    assert [problem.what.split()[0] for problem in problems] == ["gpu_freq_mhz", "power_limit_w"]
    assert all(mend in problem.mend for problem in problems)


@pytest.mark.parametrize(("rights", "user", "mend"), [(USER, 1000, "sudo"), (CONTAINER, 0, "SYS_ADMIN")])
def test_a_refused_write_names_the_right(
    rights: str, user: int, mend: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    library = FakeNvml()
    library.errors["nvmlDeviceSetPowerManagementLimit"] = 4
    knob = PowerLimitKnob(make(library, rights), gpu_of(library))
    with pytest.raises(AgentError, match="power_limit_w cannot be set on NVIDIA H200") as caught:
        knob.hold(300)
    assert caught.value.kind == "device"
    assert mend in (caught.value.hint or "")
    assert "NVML_ERROR_NO_PERMISSION" in caught.value.message


def test_a_gpu_older_than_volta_has_no_clock_to_lock(make: Make) -> None:
    board = Nvidia(make(FakeNvml(FakeGpu(name="Tesla P40", architecture=4, capability=(6, 1)))), Clock())
    assert [knob.name for knob in board.knobs] == ["power_limit_w"]
    assert board.model == "NVIDIA Tesla P40"
    assert any("needs Volta or newer" in problem.what for problem in board.problems())


@pytest.mark.parametrize(
    ("clock", "reasons", "status", "words"),
    [
        (1005, 0, None, ""),
        (990, 0, None, ""),  # one step
        (1020, 0x4, None, ""),
        (975, 0, "clock_not_applied", "locked at 1005 MHz and runs at 975 MHz"),
        (1200, 0x4, "clock_not_applied", "runs at 1200 MHz"),
        (900, 0x4, "throttled", "power limit: the GPU clock was locked at 1005 MHz and runs at 900 MHz"),
        (900, 0x6, "throttled", "power limit"),
        (210, 0x1, None, ""),  # between two steps of a training
        (1005, 0x8, "throttled", "hardware slowdown"),
        (1005, 0x20, "throttled", "too hot (software)"),
        (1005, 0x40, "throttled", "too hot (hardware)"),
        (1005, 0x80, "throttled", "power brake"),
        (1005, 0x112, None, ""),
    ],
)
def test_a_success_is_no_held_clock(clock: int, reasons: int, status: str | None, words: str, make: Make) -> None:
    gpu = FakeGpu()
    library = FakeNvml(gpu)
    knob = ClockKnob(make(library), gpu_of(library))
    knob.hold(1005)
    gpu.clocks[1], gpu.reasons = clock, reasons
    assert knob.fault(1005, False) is None  # an idle clock says nothing
    fault = knob.fault(1005, True)
    assert (fault.status if fault else None) == status
    assert words in (fault.reason if fault else "")


def test_at_a_high_clock_one_and_a_half_percent_are_allowed(make: Make) -> None:
    gpu = FakeGpu()
    knob = ClockKnob(make(FakeNvml(gpu)), gpu_of(FakeNvml(gpu)))
    knob.hold(1980)
    gpu.clocks[1] = 1951
    assert knob.fault(1980, True) is None
    gpu.clocks[1] = 1950
    assert knob.fault(1980, True) is not None


def test_a_setting_that_somebody_changed_does_not_hold(make: Make) -> None:
    gpu = FakeGpu()
    library = FakeNvml(gpu)
    files = make(library)
    clock, limit = ClockKnob(files, gpu_of(library)), PowerLimitKnob(files, gpu_of(library))
    not_yet = clock.fault(1005, False)
    assert not_yet is not None
    assert not_yet.status == "clock_not_applied"
    limit.hold(300)
    assert limit.fault(300, True) is None
    gpu.enforced_mw = 250_000
    assert "another one of 250 W holds" in (limit.fault(300, True) or ("", ""))[1]
    gpu.limit_mw = 500_000
    assert "reads '500000'" in (limit.fault(300, False) or ("", ""))[1]
    library.errors["nvmlDeviceGetPowerManagementLimit"] = 15
    assert "NVML_ERROR_GPU_IS_LOST" in (limit.fault(300, False) or ("", ""))[1]


def test_a_lock_of_somebody_else_is_a_problem(make: Make) -> None:
    gpu = FakeGpu(reasons=0x2)
    board = Nvidia(make(FakeNvml(gpu)), Clock())
    assert [problem for problem in board.problems() if "cannot be put back" in problem.what and "-rgc" in problem.mend]
    board.knobs[0].hold(1980)
    assert board.problems() == []
