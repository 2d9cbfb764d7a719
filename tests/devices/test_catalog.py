"""The catalog's files: complete, consistent, physically plausible."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise
from pathlib import Path

import pytest

from devices.catalog import BOARD_KNOBS, CONSUMERS, Board, Curve, find_board, load_catalog
from devices.errors import InputError

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


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("orin-nano-super", "jetson-orin-nano-super"),
        ("Orin-NX", "jetson-orin-nx"),
        ("agx-orin", "jetson-agx-orin"),
        ("xavier-nx", "jetson-xavier-nx"),
        ("agx-xavier", "jetson-agx-xavier"),
        ("tx2", "jetson-tx2"),
        ("nano", "jetson-nano"),
        ("rpi4", "raspberry-pi-4"),
        ("pi4", "raspberry-pi-4"),
        ("RPi5", "raspberry-pi-5"),
        ("pi5", "raspberry-pi-5"),
    ],
)
def test_the_family_answers_to_what_people_type(typed: str, name: str) -> None:
    board = find_board(typed)
    assert board is not None
    assert board.name == name


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
    assert len(board.steps(board.speed_knob)) > 1
    for knob in BOARD_KNOBS:
        steps = board.steps(knob)
        assert bool(steps) == (knob == board.speed_knob or knob in board.pinned_knobs)
        assert all(low < high for low, high in pairwise(steps))
        assert (len(steps) > 1) == (knob == board.speed_knob or knob in board.extra_knobs)


def test_the_gpu_is_there_with_its_clocks_or_not_at_all(board: Board) -> None:
    assert bool(board.gpu_freq_mhz) == (board.gpu is not None)
    assert board.speed_knob == ("gpu_freq_mhz" if board.gpu else "cpu_freq_mhz")


def test_presets_pin_steps_of_the_board(board: Board) -> None:
    assert board.presets
    for preset in board.presets:
        assert board.speed_steps(preset)
        for knob in board.pinned_knobs:
            assert preset.pinned(knob) in board.steps(knob), (preset.name, knob)
        assert (preset.cpu_freq_mhz is None) == (board.speed_knob == "cpu_freq_mhz")
        if preset.gpu_max_mhz is not None:
            assert board.gpu_freq_mhz[0] <= preset.gpu_max_mhz <= board.gpu_freq_mhz[-1]


def test_pins_are_what_the_preset_holds_and_limits() -> None:
    orin, pi = find_board("jetson-orin"), find_board("pi5")
    assert orin is not None
    assert pi is not None
    pins = orin.pins("7w")
    assert pins.values == {"cpu_cores": 4, "cpu_freq_mhz": 960, "emc_freq_mhz": 2133}
    assert pins.most == {"gpu_freq_mhz": 408}
    assert orin.pins("15W").most == {}
    assert pi.pins("3C").values == {"cpu_cores": 3}  # its memory clock cannot be set
    with pytest.raises(InputError) as refusal:
        pi.pins("7W")
    assert "4C, 3C, 2C" in (refusal.value.hint or "")


def test_the_watts_of_a_mode_are_in_its_name_where_the_name_has_any(board: Board) -> None:
    for preset in board.presets:
        named = re.match(r"(\d+)W(_|$)", preset.name)
        if named:
            assert preset.nominal_w == float(named[1])


def test_parameters_are_positive_and_curves_are_curves(board: Board) -> None:
    parts = (board.timing, board.gpu, board.power, board.memory, board.meter, board.protocol)
    for part in (part for part in parts if part is not None):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, tuple):
                assert_curve(value)
            elif isinstance(value, float | int):
                assert value > 0 or field.name == "cache_stall", field.name


def test_metered_rails_lie_inside_the_total(board: Board) -> None:
    if board.meter is None:
        return
    for name, consumers in board.meter.rails.items():
        assert name.endswith("_w")
        assert 0 < len(consumers) < len(CONSUMERS)
        assert len(set(consumers)) == len(consumers)
        assert set(consumers) <= set(CONSUMERS) - ({"gpu"} if board.gpu is None else set())


def assert_curve(curve: Curve) -> None:
    assert all(low[0] < high[0] for low, high in pairwise(curve))
    assert all(value > 0 for _, value in curve)


def test_shares_are_shares_and_voltages_rise(board: Board) -> None:
    assert board.gpu is None or board.gpu.idle_share < 1
    assert board.power.core_idle_share < 1
    assert board.memory.reserved_mib < board.memory.total_mib
    for curve in (board.power.cpu_volts, *([board.gpu.volts] if board.gpu else [])):
        volts = [value for _, value in curve]
        assert volts == sorted(volts)
        assert 0.5 < volts[0] <= volts[-1] < 1.2


def test_orin_nano_stays_below_its_peaks() -> None:
    orin = find_board("jetson-orin-nano")
    assert orin is not None
    assert orin.timing.flops_per_cycle < 2 * 1024  # 1024 cores, one multiply-add each
    assert orin.timing.emc_bytes_per_cycle < 2 * 128 / 8  # 128 bit, double data rate
    assert list(orin.gpu_freq_mhz) == [306, 408, 510, 612, 624.75]
    assert list(orin.cpu_freq_mhz[:-1]) == [round(115.2 + 76.8 * i, 1) for i in range(19)]
    assert orin.cpu_freq_mhz[-1] == 1510.4
    assert {"15W", "7W"} <= {preset.name for preset in orin.presets}


@pytest.mark.parametrize(
    ("name", "flops", "bytes_", "clock", "highest"),
    [  # multiply-adds of the cores count two; width of the bus at double data rate
        ("jetson-orin-nano-super", 2 * 1024, 32, "gpu_freq_mhz", 1020),
        ("jetson-orin-nx", 2 * 1024, 32, "gpu_freq_mhz", 1173),
        ("jetson-agx-orin", 2 * 2048, 64, "gpu_freq_mhz", 1300.5),
        ("jetson-xavier-nx", 2 * 384, 32, "gpu_freq_mhz", 1109.25),
        ("jetson-agx-xavier", 2 * 512, 64, "gpu_freq_mhz", 1377),
        ("jetson-tx2", 2 * 256, 32, "gpu_freq_mhz", 1300.5),
        ("jetson-nano", 2 * 128, 16, "gpu_freq_mhz", 921.6),
        ("raspberry-pi-4", 8, 8, "cpu_freq_mhz", 1800),
        ("raspberry-pi-5", 16, 8, "cpu_freq_mhz", 2400),
    ],
)
def test_no_board_beats_its_peaks(name: str, flops: float, bytes_: float, clock: str, highest: float) -> None:
    board = find_board(name)
    assert board is not None
    assert board.timing.flops_per_cycle < flops
    assert board.timing.emc_bytes_per_cycle < bytes_
    assert board.timing.stream_bytes_per_cycle < bytes_
    assert board.steps(clock)[-1] == highest


@pytest.mark.parametrize(
    ("tree", "name", "knob"),
    [
        ("orin-nano-jp5", "jetson-orin-nano", "gpu_freq_mhz"),
        ("orin-nano-super-jp6", "jetson-orin-nano-super", "gpu_freq_mhz"),
        ("agx-orin-jp6", "jetson-agx-orin", "gpu_freq_mhz"),
        ("xavier-nx-jp4", "jetson-xavier-nx", "gpu_freq_mhz"),
        ("nano-jp4", "jetson-nano", "gpu_freq_mhz"),
        ("nano-jp4", "jetson-nano", "cpu_freq_mhz"),
        ("rpi5", "raspberry-pi-5", "cpu_freq_mhz"),
    ],
)
def test_steps_are_those_of_the_trees_of_boards(tree: str, name: str, knob: str) -> None:
    board = find_board(name)
    assert board is not None
    what, per_mhz = (
        ("scaling_available_frequencies", 1e3) if knob == "cpu_freq_mhz" else ("/available_frequencies", 1e6)
    )
    text = (Path(__file__).parent.parent / "data" / "boards" / f"{tree}.tree").read_text(encoding="utf-8")
    found = [line.split(" = ")[1] for line in text.splitlines() if f"{what} = " in line and ".vic/" not in line]
    assert len(found) == 1
    assert tuple(float(step) / per_mhz for step in found[0].split()) == board.steps(knob)
