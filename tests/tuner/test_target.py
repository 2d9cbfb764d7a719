from __future__ import annotations

import pytest

from devices.catalog import find_board
from devices.device import WorkloadSpec
from devices.errors import InputError, UnsupportedError
from tuner.goal import GOALS, Cap
from tuner.target import choose_preset, open_target, preset_text

RESNET = WorkloadSpec("resnet18")


def test_seven_watts_need_slow_cpus_and_the_user_is_told() -> None:
    board = find_board("jetson-orin")
    assert board is not None
    choice = choose_preset(board, RESNET, GOALS["throughput"], Cap(7.0, "p95"))
    preset = board.preset(choice.name)
    assert choice.feasible
    assert preset is not None
    assert preset.cpu_freq_mhz is not None
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


def test_a_board_whose_cpu_trains_has_presets_too() -> None:
    board = find_board("raspberry-pi-5")
    assert board is not None
    choice = choose_preset(board, RESNET, GOALS["throughput"], Cap(7.0, "p95"))
    assert choice.feasible
    assert "CPU cores): predicted best in throughput under 7 W" in choice.reason
    meterless = find_board("raspberry-pi-4")
    assert meterless is not None
    assert choose_preset(meterless, RESNET, GOALS["throughput"], None).name == "4C"


def test_a_board_without_a_meter_takes_no_cap_and_no_goal_that_needs_one() -> None:
    for goal, cap in (("throughput", Cap(5.0, "p95")), ("energy", None)):
        with pytest.raises(UnsupportedError, match="raspberry-pi-4 has no power meter"):
            open_target("raspberry-pi-4", RESNET, GOALS[goal], cap)
    device, _ = open_target("raspberry-pi-4", RESNET, GOALS["throughput"], None)
    assert device.describe().held_fixed["preset"] == "4C"


@pytest.mark.parametrize(
    ("name", "preset", "text"),
    [
        ("jetson-orin-nano", "7W", "4 CPU cores at 960 MHz, EMC at 2133 MHz, GPU at most 408 MHz"),
        ("jetson-nano", "5W", "2 CPU cores at 825.6 MHz, GPU at most 614.4 MHz"),
        ("raspberry-pi-5", "2C", "2 CPU cores"),
    ],
)
def test_presets_in_words(name: str, preset: str, text: str) -> None:
    board = find_board(name)
    assert board is not None
    assert preset_text(board, board.known_preset(preset)) == text


def test_a_given_preset_is_taken() -> None:
    device, notes = open_target("orin-nano", RESNET, GOALS["throughput"], None, preset="15W")
    assert device.describe().held_fixed["preset"] == "15W"
    assert notes == ()


def test_unknown_board() -> None:
    with pytest.raises(InputError, match="jetson-orin"):
        open_target("jetson-orinn", RESNET, GOALS["throughput"], None)
