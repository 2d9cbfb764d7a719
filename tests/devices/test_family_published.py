"""The family of emulated boards against the figures published of them."""

from __future__ import annotations

import pytest

from devices.catalog import Board, find_board, load_catalog
from devices.cost import count_step
from devices.device import WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.physics import Clocks, idle_power_w, operate
from experiments.fit_boards import anchors, sweeps
from experiments.fit_boards.__main__ import FITS
from experiments.fit_boards.fitting import fitted, with_parameters

BOARDS = load_catalog()
RESNET = WorkloadSpec("resnet18")


def find(name: str) -> Board:
    board = find_board(name)
    assert board is not None
    return board


# T = a + c/f [s], P = p0 + p1 f + p3 f^3 [W], f in GHz, CPU and memory at their highest, fitted to data of BoFL (Guo et
# al., 2022). The workloads were ViT-B/16 (batch 32), an LSTM (batch 8) and ResNet-50 (batch 8), none of ours: ResNet-18
# (224x224) stands in, at the batch size of equal work. For ResNet-50 that is 18 (196 GFLOP a step).
PUBLISHED = [
    ("jetson-agx-xavier", "ViT", 12, (0.0195, 0.2219), (6.50, 5.46, 3.67)),
    ("jetson-agx-xavier", "LSTM", 17, (0.0493, 0.3073), (6.44, 6.29, 2.50)),
    ("jetson-agx-xavier", "ResNet-50", 18, (0.0168, 0.3243), (6.33, 6.01, 3.75)),
    ("jetson-tx2", "ViT", 11, (0.0942, 0.4250), (3.75, 4.36, 0.72)),
    ("jetson-tx2", "LSTM", 14, (0.1804, 0.5472), (3.89, 5.23, 0.29)),
    ("jetson-tx2", "ResNet-50", 18, (0.1738, 0.7269), (3.83, 4.23, 0.87)),
]


@pytest.mark.parametrize(("name", "workload", "batch", "time", "power"), PUBLISHED)
def test_published_sweeps_over_the_gpu_clock_are_reproduced_within_ten_percent(
    name: str, workload: str, batch: int, time: tuple[float, float], power: tuple[float, float, float]
) -> None:
    board = find(name)
    emulated = EmulatedDevice(board, preset="MAXN", values={"batch_size": [batch]})
    held = emulated.describe().held_fixed
    assert [held[knob] for knob in board.pinned_knobs] == [board.steps(knob)[-1] for knob in board.pinned_knobs]
    settings = list(emulated.describe().enumerate_settings())
    assert len(settings) == len(board.gpu_freq_mhz) >= 13
    for setting in settings:
        ghz = setting["gpu_freq_mhz"] / 1e3
        found = emulated.predict(setting, RESNET)
        assert found.step_time_s == pytest.approx(time[0] + time[1] / ghz, rel=0.10), workload
        assert found.power_mean_w == pytest.approx(power[0] + power[1] * ghz + power[2] * ghz**3, rel=0.10), workload


def test_the_stand_in_for_resnet50_does_as_much_work() -> None:
    resnet50_flops = 8 * 3 * 2 * 4.09e9  # batch 8; forward and twice that backward; 4.09 G multiply-adds a picture
    assert count_step(RESNET).flops.at(18) == pytest.approx(resnet50_flops, rel=0.03)


def test_the_fit_and_its_test_mean_the_same_figures() -> None:
    ours = {
        (name, sweep.batch, sweep.time, sweep.power)
        for name, published in (("jetson-agx-xavier", sweeps.AGX_XAVIER), ("jetson-tx2", sweeps.TX2))
        for sweep in published.sweeps
    }
    assert ours == {(name, batch, time, power) for name, _, batch, time, power in PUBLISHED}


@pytest.mark.parametrize(
    ("name", "lowest_w", "highest_w"), [("jetson-agx-xavier", 4.5, 24.5), ("jetson-tx2", 2.2, 11.4)]
)
def test_the_range_over_all_clocks_is_reproduced(name: str, lowest_w: float, highest_w: float) -> None:
    board = find(name)
    watts = [
        operate(board, Clocks(gpu, board.cpu_cores[-1], cpu, emc), count_step(RESNET), 18).rails.total_w
        for gpu in board.gpu_freq_mhz
        for cpu in board.cpu_freq_mhz
        for emc in board.emc_freq_mhz
    ]
    assert min(watts) == pytest.approx(lowest_w, rel=0.10)
    assert max(watts) == pytest.approx(highest_w, rel=0.10)


@pytest.mark.parametrize(("cap_w", "published"), [(5.0, 2.5), (7.5, 1.18), (10.0, 1.05)])
def test_under_a_tight_cap_a_tx2_needs_slower_cpu_and_memory(cap_w: float, published: float) -> None:
    assert sweeps.slowdown(find("jetson-tx2"), cap_w, 18) == pytest.approx(published, rel=0.20)


@pytest.mark.parametrize(
    ("name", "idle_w"),
    [
        ("jetson-tx2", 1.95),
        ("jetson-nano", 1.69),
        ("jetson-orin-nano-super", 3.52),
        ("jetson-agx-orin", 8.71),
        ("raspberry-pi-4", 2.5),
    ],
)
def test_idle_power_is_what_was_read_on_boards(name: str, idle_w: float) -> None:
    assert idle_power_w(find(name)) == pytest.approx(idle_w, rel=0.12)


@pytest.mark.parametrize(
    ("name", "preset", "watts", "tolerance"),
    [
        ("jetson-orin-nx", "40W", 27.6, 0.05),
        ("jetson-orin-nx", "MAXN_SUPER", 29.4, 0.05),
        ("jetson-agx-orin", "MAXN", 50, 0.10),
        ("raspberry-pi-5", "4C", 8.88, 0.05),
        ("raspberry-pi-4", "4C", 5.0, 0.05),
    ],
)
def test_full_loads_draw_what_others_measured(name: str, preset: str, watts: float, tolerance: float) -> None:
    assert anchors.full_load(find(name), preset).rails.total_w == pytest.approx(watts, rel=tolerance)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_no_mode_draws_far_more_than_the_vendor_names_it_by(board: Board) -> None:
    for preset in board.presets:
        # a mode that gates a part of the GPU draws more with all of it
        if preset.nominal_w is not None and preset.note is None:
            assert anchors.full_load(board, preset.name).rails.total_w < 1.1 * preset.nominal_w, preset.name


def test_four_busy_cores_of_a_raspberry_pi_5_draw_what_was_read() -> None:
    assert anchors.full_load(find("raspberry-pi-5"), "4C").rails.cpu_w == pytest.approx(5.36, rel=0.05)


def test_a_fit_finds_parameters_it_was_not_told() -> None:
    board, fit = find("raspberry-pi-4"), FITS["raspberry-pi-4"]
    wrong = with_parameters(board, {"power.base_w": 3.0, "power.core_nf": 1.0})
    assert idle_power_w(wrong) > 3.5
    values = fitted(wrong, fit)
    assert idle_power_w(with_parameters(wrong, values)) == pytest.approx(2.5, rel=0.03)
    assert values["timing.cache_stall"] == pytest.approx(board.timing.cache_stall, rel=0.05)
