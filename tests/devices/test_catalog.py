"""The catalog's files: complete, consistent, physically plausible."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from devices.catalog import Board, Curve, find_board, load_catalog

BOARDS = load_catalog()


@pytest.fixture(params=BOARDS, ids=lambda board: board.name)
def board(request: pytest.FixtureRequest) -> Board:
    assert isinstance(request.param, Board)
    return request.param


def test_boards_are_found_by_name_and_alias_in_any_case() -> None:
    orin = find_board("jetson-orin-nano")
    assert orin is not None
    assert find_board("Jetson-Orin") is orin
    assert find_board("orin-nano") is orin
    assert find_board("jetson-orin-nan") is None


def test_no_name_means_two_boards() -> None:
    names = [name for board in BOARDS for name in (board.name, *board.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


def test_presets_are_found_in_any_case(board: Board) -> None:
    for preset in board.presets:
        assert board.preset(preset.name.upper()) is preset
        assert board.preset(preset.name.lower()) is preset
    assert board.preset("no such mode") is None


def test_steps_ascend(board: Board) -> None:
    for knob in ("gpu_freq_mhz", "cpu_cores", "cpu_freq_mhz", "emc_freq_mhz"):
        steps = board.steps(knob)
        assert len(steps) > 1
        assert all(low < high for low, high in pairwise(steps))


def test_presets_pin_steps_of_the_board(board: Board) -> None:
    assert board.presets
    for preset in board.presets:
        for knob in ("cpu_cores", "cpu_freq_mhz", "emc_freq_mhz"):
            assert preset.pinned(knob) in board.steps(knob), (preset.name, knob)
        if preset.gpu_max_mhz is not None:
            assert preset.gpu_max_mhz >= board.gpu_freq_mhz[0]


def test_parameters_are_positive_and_curves_are_curves(board: Board) -> None:
    for part in (board.timing, board.power, board.memory, board.meter, board.protocol):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, tuple):
                assert_curve(value)
            elif not isinstance(value, str):
                assert value > 0, field.name


def assert_curve(curve: Curve) -> None:
    assert all(low[0] < high[0] for low, high in pairwise(curve))
    assert all(value > 0 for _, value in curve)


def test_shares_are_shares_and_voltages_rise(board: Board) -> None:
    assert board.power.gpu_idle_share < 1
    assert board.power.core_idle_share < 1
    assert board.memory.reserved_mib < board.memory.total_mib
    for curve in (board.power.gpu_volts, board.power.cpu_volts):
        volts = [value for _, value in curve]
        assert volts == sorted(volts)
        assert 0.5 < volts[0] <= volts[-1] < 1.2


def test_orin_nano_stays_below_its_peaks() -> None:
    orin = find_board("jetson-orin-nano")
    assert orin is not None
    assert orin.timing.gpu_flops_per_cycle < 2 * 1024  # 1024 cores, one multiply-add each
    assert orin.timing.emc_bytes_per_cycle < 2 * 128 / 8  # 128 bit, double data rate
    assert list(orin.gpu_freq_mhz) == [306, 408, 510, 612, 624.75]
    assert list(orin.cpu_freq_mhz[:-1]) == [round(115.2 + 76.8 * i, 1) for i in range(19)]
    assert orin.cpu_freq_mhz[-1] == 1510.4
    assert {"15W", "7W"} <= {preset.name for preset in orin.presets}
