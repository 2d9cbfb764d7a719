"""A fake board held at a setting, without a trainer: its clocks, its meter, its cap."""

from __future__ import annotations

import pytest

from devices.device import BurstPlan, WorkloadSpec
from devices.errors import DeviceError, DeviceLostError, InputError
from devices.fake.board import FakeBoard
from devices.fake.link import InProcessLink, fake_device
from devices.fake.turns import TurnClock
from devices.hold import Hold
from tests.devices.fake.test_device import state

SETTING = {"gpu_freq_mhz": 306, "batch_size": 384}


def open_board(*faults: str, model: str = "jetson-orin-nano") -> tuple[FakeBoard, Hold]:
    board = FakeBoard(model, clock=TurnClock(), faults=faults)
    return board, Hold(board.catalog.name, link=InProcessLink(board))


def test_clocks_are_held_and_put_back() -> None:
    board, hold = open_board()
    before = state(board)
    with hold:
        assert {"gpu_freq_mhz", "cpu_freq_mhz"} <= {knob.name for knob in hold.knobs}
        hold.apply(SETTING)
        hold.apply({"gpu_freq_mhz": 408})
        assert board.read("/sys/class/devfreq/17000000.ga10b/max_freq").strip() == "408000000"
    assert state(board) == before
    hold.close()


def test_a_value_it_does_not_have_is_refused_before_any_write() -> None:
    board, hold = open_board()
    before = state(board)
    with hold:
        with pytest.raises(InputError, match="gpu_freq_mhz has no step 307"):
            hold.apply({"cpu_freq_mhz": 729.6, "gpu_freq_mhz": 307})
        assert state(board) == before


def test_what_the_meter_says() -> None:
    board, hold = open_board()
    with hold:
        hold.read(1000.0)
        board.clock.sleep(3)
        found = hold.read(1000.0)
        assert found.power_w is not None
        assert 1 < found.power_w < 20
        assert found.statistic_w == pytest.approx(found.power_mean_w, rel=0.1)
        assert found.energy_j == pytest.approx(3 * (found.power_mean_w or 0), rel=0.1)
        assert (found.over_cap, found.fault, found.slowed, found.time_over_cap_s) == (None, None, None, 0)
        hold.apply({"gpu_freq_mhz": 306})  # begins anew
        assert hold.read().energy_j is None


def test_a_broken_cap_is_told_while_it_lasts_and_how_long() -> None:
    board, hold = open_board()
    with hold:
        hold.read(2.0)
        board.clock.sleep(1.5)
        assert hold.read(2.0).over_cap is None
        board.clock.sleep(1.5)
        first = hold.read(2.0)
        board.clock.sleep(2)
        second = hold.read(2.0)
        assert first.over_cap is not None
        assert second.over_cap is not None
        assert first.over_cap.power_w > 2.2
        assert 2 < first.over_cap.for_s < 3.2
        assert second.over_cap.for_s == pytest.approx(first.over_cap.for_s + 2, abs=0.2)
        assert second.time_over_cap_s == pytest.approx(5, abs=0.5)


def test_a_breach_between_two_readings_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    board, hold = open_board()
    with hold:
        hold.read(10.0)
        board.clock.sleep(1)
        watts = board._watts
        monkeypatch.setattr(board, "_watts", lambda: {label: 9 * power for label, power in watts().items()})
        board.clock.sleep(4)
        monkeypatch.undo()
        board.clock.sleep(4)
        found = hold.read(10.0)
        assert found.over_cap is not None
        assert 2 < found.over_cap.for_s < 6
        assert found.power_w is not None
        assert found.power_w < 10
        assert hold.read(10.0).over_cap is None


def test_a_board_without_a_meter_tells_nothing_of_power() -> None:
    _, hold = open_board(model="raspberry-pi-4")
    with hold:
        assert hold.info.statistics == ()
        found = hold.read(2.0)
        assert (found.power_w, found.over_cap, found.energy_j) == (None, None, None)


def test_what_slows_the_board_down_is_told() -> None:
    board, hold = open_board()
    with hold:
        hold.read()
        board.change(lambda: board.set_mode(1))
        slowed = hold.read().slowed
        assert slowed is not None
        assert "mode" in slowed or "CPUs" in slowed


def test_a_board_that_is_gone() -> None:
    board, hold = open_board()
    with hold:
        board.reboot()
        with pytest.raises(DeviceLostError):
            hold.read()
        assert hold.closed


def test_a_value_that_is_not_put_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    board, hold = open_board()
    hold.apply({"gpu_freq_mhz": 306})
    name = "/sys/class/devfreq/17000000.ga10b/max_freq"
    write = board.write
    monkeypatch.setattr(board, "write", lambda path, text: None if path == name else write(path, text))
    with pytest.raises(DeviceError, match=f"not put back: {name}"):
        hold.close()
    assert hold.closed


def test_a_burst_ends_a_reading() -> None:
    board = FakeBoard("jetson-orin-nano", clock=TurnClock())
    workload = WorkloadSpec("resnet18")
    with fake_device(board, workload) as device:
        before = device._agent.ask("read", cap_w=None, statistic="p95")
        board.clock.sleep(2)
        assert device.measure({"gpu_freq_mhz": 306, "batch_size": 16}, workload, BurstPlan()).ok
        after = device._agent.ask("read", cap_w=None, statistic="p95")
        assert before["energy_j"] == after["energy_j"] is None
        device.restore()
        with pytest.raises(InputError, match="the request read is malformed"):
            device._agent.ask("read")
