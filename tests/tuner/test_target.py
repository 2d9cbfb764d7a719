from __future__ import annotations

import pytest

from devices.catalog import find_board
from devices.device import WorkloadSpec
from devices.errors import InputError
from tuner.goal import GOALS, Cap
from tuner.target import choose_preset, open_target

RESNET = WorkloadSpec("resnet18")


def test_seven_watts_need_slow_cpus_and_the_user_is_told() -> None:
    board = find_board("jetson-orin")
    assert board is not None
    choice = choose_preset(board, RESNET, GOALS["throughput"], Cap(7.0, "p95"))
    preset = board.preset(choice.name)
    assert choice.feasible
    assert preset is not None
    assert preset.cpu_freq_mhz < 1000
    assert choice.name in choice.reason
    assert "7 W" in choice.reason
    stock = choose_preset(board, RESNET, GOALS["throughput"], Cap(30.0, "p95"))
    fast = board.preset(stock.name)
    assert fast is not None
    assert fast.emc_freq_mhz == 2133


def test_the_reason_names_the_goal() -> None:
    board = find_board("jetson-orin")
    assert board is not None
    assert "best in energy per sample" in choose_preset(board, RESNET, GOALS["energy"], Cap(9.0, "p95")).reason
    assert "best in throughput" in choose_preset(board, RESNET, GOALS["throughput"], Cap(9.0, "p95")).reason


def test_a_cap_no_preset_holds_takes_the_lowest_and_says_so() -> None:
    board = find_board("jetson-orin")
    assert board is not None
    choice = choose_preset(board, RESNET, GOALS["throughput"], Cap(3.0, "p95"))
    assert not choice.feasible
    assert "no preset" in choice.reason


def test_a_given_preset_is_taken() -> None:
    device, notes = open_target("orin-nano", RESNET, GOALS["throughput"], None, preset="15W")
    assert device.describe().held_fixed["preset"] == "15W"
    assert notes == ()


def test_unknown_board() -> None:
    with pytest.raises(InputError, match="jetson-orin"):
        open_target("jetson-orinn", RESNET, GOALS["throughput"], None)
