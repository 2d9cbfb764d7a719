from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from devices.catalog import find_board
from devices.device import BATCH_KNOB, WorkloadSpec, open_device
from devices.errors import UnsupportedError
from devices.measurement import Status
from tuner.goal import GOALS, Cap
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies import open_strategy
from tuner.strategies.mode_table import vendor_mode
from tuner.study import Study
from tuner.testing import drive, toy_measurement, toy_problem


def orin(
    cap_w: float | None, search: Sequence[str] = (), values: Mapping[str, Sequence[float]] | None = None
) -> Problem:
    with open_device("jetson-orin", WorkloadSpec("resnet18"), search=search, values=values) as device:
        info = device.describe()
    cap = None if cap_w is None else Cap(cap_w, "p95")
    return Problem(Space.of(info), GOALS["throughput"], cap, device=info.name)


@pytest.mark.parametrize(
    ("cap_w", "mode"), [(3.0, "7W"), (7.0, "7W"), (14.99, "7W"), (15.0, "15W"), (60.0, "15W"), (None, "15W")]
)
def test_the_mode_nearest_from_below(cap_w: float | None, mode: str) -> None:
    board = find_board("jetson-orin-nano")
    assert board is not None
    assert vendor_mode(board, None if cap_w is None else Cap(cap_w, "p95")).name == mode


@pytest.mark.parametrize(
    ("name", "cap_w", "mode"),
    [
        ("jetson-agx-xavier", 20.0, "15W"),  # the default of three modes of 15 W or less
        ("jetson-agx-xavier", 30.0, "30W_ALL"),
        ("jetson-xavier-nx", 12.0, "10W_DESKTOP"),
        ("jetson-tx2", 7.5, "MAXQ"),
        ("jetson-tx2", 20.0, "MAXP_CORE_ALL"),
        ("jetson-nano", 9.0, "5W"),
    ],
)
def test_modes_that_share_their_watts_or_bear_other_names(name: str, cap_w: float, mode: str) -> None:
    board = find_board(name)
    assert board is not None
    assert vendor_mode(board, Cap(cap_w, "p95")).name == mode


def test_a_board_whose_vendor_has_no_modes_is_refused_in_a_sentence() -> None:
    board = find_board("raspberry-pi-5")
    assert board is not None
    with pytest.raises(UnsupportedError, match="raspberry-pi-5 offers no power mode"):
        vendor_mode(board, None)


def test_one_burst_at_the_mode_and_the_default_batch() -> None:
    problem = orin(7.0, search=["cpu_cores", "cpu_freq_mhz"])
    trials, _ = drive(open_strategy("mode-table"), problem, toy_measurement, 9)
    assert [trial.setting for trial in trials] == [
        {"gpu_freq_mhz": 408, BATCH_KNOB: 32, "cpu_cores": 4, "cpu_freq_mhz": 960}
    ]


def test_a_mode_without_a_limit_runs_at_the_highest_clock() -> None:
    trials, _ = drive(open_strategy("mode-table"), orin(15.0), toy_measurement, 9)
    assert [trial.setting["gpu_freq_mhz"] for trial in trials] == [624.75]


def test_a_batch_that_does_not_fit_is_lowered() -> None:
    trials, _ = drive(open_strategy("mode-table"), orin(7.0), lambda s: toy_measurement(s, oom_from=16), 9)
    assert [(trial.setting[BATCH_KNOB], trial.status) for trial in trials] == [
        (32, Status.OOM),
        (16, Status.OOM),
        (8, Status.OK),
    ]


def test_devices_outside_the_catalog_are_refused_in_a_sentence() -> None:
    with pytest.raises(UnsupportedError, match="not of this device"):
        open_strategy("mode-table").suggest(toy_problem(), [])
    with pytest.raises(UnsupportedError, match="not of V100"):
        open_strategy("mode-table").suggest(replace(toy_problem(), device="V100"), [])


def test_a_space_without_the_clock_of_the_mode_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="gpu_freq_mhz at 408"):
        open_strategy("mode-table").suggest(orin(7.0, values={"gpu_freq_mhz": [306, 510]}), [])


def test_a_study_names_its_device() -> None:
    with Study("jetson-orin", cap_w=15.0, strategy="mode-table", bursts=6) as study:
        outcome = study.run()
    assert study.problem.device == "jetson-orin-nano"
    assert outcome.trials[0].setting["gpu_freq_mhz"] == 624.75
