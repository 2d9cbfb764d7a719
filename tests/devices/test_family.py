"""The family of emulated boards: those without GPU or meter, memory, rails, and the contract for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from devices.catalog import Board, find_board, load_catalog
from devices.cost import count_step
from devices.device import BurstPlan, Device, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.errors import InputError, UnsupportedError
from devices.measurement import Status
from devices.physics import Clocks, Load, idle_power_w, operate, rails

pytest.register_assert_rewrite("devices.testing")
from devices.testing import DeviceContract  # noqa: E402

BOARDS = load_catalog()
RESNET = WorkloadSpec("resnet18")
SMALL = WorkloadSpec("resnet18", {"image_size": 32})


def find(name: str) -> Board:
    board = find_board(name)
    assert board is not None
    return board


def stock(name: str, **options: object) -> EmulatedDevice:
    board = find(name)
    return EmulatedDevice(board, preset=board.presets[0].name, **options)  # type: ignore[arg-type]


# --- boards whose CPU trains ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["raspberry-pi-4", "raspberry-pi-5"])
def test_a_raspberry_pi_has_the_cpu_clock_and_the_batch_as_knobs(name: str) -> None:
    info = stock(name).describe()
    assert [knob.name for knob in info.knobs] == ["cpu_freq_mhz", "batch_size"]
    assert info.default_setting == {"cpu_freq_mhz": find(name).cpu_freq_mhz[-1], "batch_size": 32}
    assert info.held_fixed["cpu_cores"] == 4
    more = stock(name, search=["cpu_cores"]).describe()
    assert list(more.knobs[2].values) == [1, 2, 3, 4]
    for knob in ("gpu_freq_mhz", "emc_freq_mhz"):
        with pytest.raises(InputError, match=f"cannot search '{knob}'"):
            stock(name, search=[knob])
        with pytest.raises(InputError, match=knob):
            stock(name, values={knob: [306]})


@pytest.mark.parametrize("name", ["raspberry-pi-4", "raspberry-pi-5"])
def test_more_cores_and_faster_ones_train_faster_and_draw_more(name: str) -> None:
    board = find(name)

    def run(cores: int, cpu_mhz: float) -> tuple[float, float]:
        point = operate(board, Clocks(0, cores, cpu_mhz, board.emc_freq_mhz[0]), count_step(RESNET), 8)
        assert point.load.gpu_busy == 0
        assert point.rails.gpu_w == 0
        assert point.load.cores_busy <= cores
        return 1 / point.step_time_s, point.rails.total_w

    by_cores = [run(cores, board.cpu_freq_mhz[-1]) for cores in board.cpu_cores]
    by_clock = [run(4, cpu_mhz) for cpu_mhz in board.cpu_freq_mhz]
    for line in (by_cores, by_clock):
        assert all(slow[0] < fast[0] and slow[1] < fast[1] for slow, fast in pairwise(line))
    assert 2.5 < by_cores[-1][0] / by_cores[0][0] < 4.3  # the system takes its share of a single core too
    faster = board.cpu_freq_mhz[-1] / board.cpu_freq_mhz[0]
    assert 0.8 * faster < by_clock[-1][0] / by_clock[0][0] < 1.05 * faster


def test_the_largest_batch_that_fits_is_up_to_twice_as_slow_as_the_best_on_a_raspberry_pi_4() -> None:
    emulated = stock("raspberry-pi-4")
    settings = [{"cpu_freq_mhz": 1800, "batch_size": batch} for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    rates = [found.throughput for s in settings if (found := emulated.predict(s, SMALL)).ok]
    assert None not in rates
    best = int(np.argmax(rates))  # type: ignore[arg-type]
    assert 0 < best < len(rates) - 1
    assert 1.5 < max(rates) / rates[-1] < 2.05  # type: ignore[type-var,operator]


def test_a_raspberry_pi_4_has_no_meter_and_says_so() -> None:
    emulated = stock("raspberry-pi-4")
    info = emulated.describe()
    assert info.statistics == ()
    assert info.meter is None
    setting = info.default_setting
    assert setting is not None
    with pytest.raises(UnsupportedError, match="no power meter"):
        emulated.measure(setting, RESNET, BurstPlan(cap_w=5.0))
    events: list[dict[str, object]] = []
    found = emulated.measure(setting, RESNET, BurstPlan.for_device(info), lambda event: events.append(dict(event)))
    assert found.ok
    assert found.throughput is not None
    assert [event["phase"] for event in events] == ["apply", "warm-up", "window"]
    assert all("power_w" not in event for event in events)
    named = {name: value for name, value in found.to_json().items() if name.endswith(("_w", "_j"))}
    assert {name for name, value in named.items() if value} == set()
    assert found.extra == {}
    assert found.cost_s > found.duration_s  # type: ignore[operator]
    predicted = emulated.predict(setting, RESNET)
    assert predicted.power_mean_w is None
    assert predicted.throughput == pytest.approx(found.throughput, rel=0.1)


def test_standard_errors_without_a_meter_are_honest() -> None:
    emulated, setting = stock("raspberry-pi-4"), {"cpu_freq_mhz": 1500, "batch_size": 4}
    truth = emulated.predict(setting, SMALL).throughput
    found = [emulated.measure(setting, SMALL, BurstPlan(min_s=1, max_s=5, replicate=r)) for r in range(100)]
    z = np.array([(m.throughput - truth) / m.throughput_sem for m in found])  # type: ignore[operator]
    assert 0.8 < np.sqrt((z**2).mean()) < 1.2


# --- meters, memory, presets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("jetson-orin-nx", {"vdd_cpu_gpu_cv_w", "vdd_soc_w"}),
        ("jetson-xavier-nx", {"vdd_cpu_gpu_cv_w", "vdd_soc_w"}),
        ("jetson-tx2", {"vdd_sys_gpu_w", "vdd_sys_cpu_w", "vdd_sys_soc_w", "vdd_sys_ddr_w"}),
        ("jetson-nano", {"pom_5v_gpu_w", "pom_5v_cpu_w"}),
        ("jetson-agx-orin", {"vdd_gpu_soc_w", "vdd_cpu_cv_w", "vin_sys_5v0_w", "vddq_vdd2_1v8ao_w"}),
        ("jetson-agx-xavier", {"gpu_w", "cpu_w", "soc_w", "vddrq_w", "sys5v_w"}),
        ("raspberry-pi-5", {"vdd_core_w"}),
    ],
)
def test_each_board_reports_the_rails_it_has(name: str, names: set[str]) -> None:
    emulated = stock(name)
    setting = emulated.describe().default_setting
    assert setting is not None
    for found in (emulated.predict(setting, RESNET), emulated.measure(setting, RESNET, BurstPlan())):
        assert set(found.extra) == names
        assert found.power_mean_w is not None
        assert all(0 < estimate.value < found.power_mean_w for estimate in found.extra.values())


@pytest.mark.parametrize(
    ("name", "summed"),
    [
        ("jetson-agx-xavier", ["gpu_w", "cpu_w", "soc_w", "vddrq_w", "sys5v_w"]),
        ("jetson-agx-orin", ["vdd_gpu_soc_w", "vdd_cpu_cv_w", "vin_sys_5v0_w"]),
    ],
)
def test_a_total_that_is_a_sum_says_of_what_and_is_it(name: str, summed: list[str]) -> None:
    emulated = stock(name)
    info = emulated.describe()
    assert info.meter is not None
    assert all(rail.removesuffix("_w").upper() in info.meter for rail in summed)
    found = emulated.measure(info.default_setting or {}, RESNET, BurstPlan())
    assert sum(found.extra[rail].value for rail in summed) == pytest.approx(found.power_mean_w)
    assert any("no rail for its input" in note for note in info.notes)


@pytest.mark.parametrize(
    ("name", "fits", "too_large"),
    [
        ("jetson-nano", 32, 64),
        ("jetson-orin-nx", 256, 1024),
        ("raspberry-pi-4", 128, 256),
        ("raspberry-pi-5", 128, 256),
    ],
)
def test_a_batch_that_does_not_fit_is_out_of_memory(name: str, fits: int, too_large: int) -> None:
    emulated = stock(name, values={"batch_size": [fits, too_large]})
    knob = find(name).speed_knob
    for clock in (find(name).steps(knob)[0], (emulated.describe().default_setting or {})[knob]):
        assert emulated.measure({knob: clock, "batch_size": fits}, RESNET, BurstPlan()).ok
        found = emulated.measure({knob: clock, "batch_size": too_large}, RESNET, BurstPlan())
        assert found.status is Status.OOM
        assert f"batch {too_large} needs" in (found.reason or "")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_power_and_speed_rise_with_the_clock_in_every_preset(board: Board) -> None:
    for preset in board.presets:
        emulated = EmulatedDevice(board, preset=preset.name)
        clocks = emulated.describe().knobs[0].values
        assert clocks[-1] == board.speed_steps(preset)[-1]
        found = [emulated.predict({board.speed_knob: clock, "batch_size": 16}, RESNET) for clock in clocks]
        rates = [m.throughput or 0 for m in found]
        assert all(0 < slow <= fast for slow, fast in pairwise(rates))
        if board.meter is not None:
            watts = [m.power_mean_w or 0 for m in found]
            assert all(0 < low < high for low, high in pairwise(watts))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_idling_draws_less_than_working_and_no_more_than_waiting_at_full_clocks(board: Board) -> None:
    highest = Clocks(
        max(board.gpu_freq_mhz, default=0.0), board.cpu_cores[-1], board.cpu_freq_mhz[-1], board.emc_freq_mhz[-1]
    )
    waiting_w = rails(board, highest, Load()).total_w
    assert idle_power_w(board) < waiting_w < operate(board, highest, count_step(RESNET), 16).rails.total_w


# --- the contract ---------------------------------------------------------------------------------------------------


class TestFamily(DeviceContract):
    @pytest.fixture(params=[board.name for board in BOARDS])
    def device(self, request: pytest.FixtureRequest) -> Iterator[Device]:
        with stock(request.param) as device:
            yield device
