"""The emulated Orin Nano: published figures, physical behaviour, honest noise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from devices.catalog import Board, find_board
from devices.cost import count_step
from devices.device import BurstPlan, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.errors import InputError
from devices.measurement import Measurement, Status
from devices.physics import Clocks, OperatingPoint, idle_power_w, interpolate, operate

RESNET = WorkloadSpec("resnet18")
SMALL = WorkloadSpec("resnet18", {"image_size": 32})
TOP = {"gpu_freq_mhz": 624.75, "batch_size": 16}
PLAN = BurstPlan()


def orin() -> Board:
    board = find_board("jetson-orin-nano")
    assert board is not None
    return board


def device(preset: str = "15W", *, search: Sequence[str] = (), seed: int = 0) -> EmulatedDevice:
    return EmulatedDevice(orin(), preset=preset, search=search, seed=seed)


def run(cores: int, cpu_mhz: float, emc_mhz: float, gpu_mhz: float, batch: int = 16) -> OperatingPoint:
    return operate(orin(), Clocks(gpu_mhz, cores, cpu_mhz, emc_mhz), count_step(RESNET), batch)


# ResNet-18, 224x224, batch 16: milliseconds a step, watts of VDD_IN
@pytest.mark.parametrize(
    ("cores", "cpu_mhz", "emc_mhz", "gpu_mhz", "milliseconds", "watts"),
    [
        (4, 1510.4, 2133, 306, 333, 8.9),
        (4, 1510.4, 2133, 510, 203, 11.5),
        (4, 1510.4, 2133, 624.75, 172, 12.6),
        (4, 1510.4, 665.6, 306, 432, 7.7),
        (4, 1510.4, 665.6, 510, 376, 8.5),
        (4, 1510.4, 665.6, 624.75, 366, 8.8),
        (4, 1036.8, 2133, 306, 333, 8.3),
        (4, 1036.8, 2133, 510, 204, 9.0),
        (4, 1036.8, 2133, 624.75, 173, 9.8),
        (2, 422.4, 2133, 624.75, 367, 7.0),
    ],
)
def test_published_runs_are_reproduced(
    cores: int, cpu_mhz: float, emc_mhz: float, gpu_mhz: float, milliseconds: float, watts: float
) -> None:
    emulated = device(search=["cpu_cores", "cpu_freq_mhz", "emc_freq_mhz"])
    found = emulated.predict(
        {
            "gpu_freq_mhz": gpu_mhz,
            "batch_size": 16,
            "cpu_cores": cores,
            "cpu_freq_mhz": cpu_mhz,
            "emc_freq_mhz": emc_mhz,
        },
        RESNET,
    )
    assert found.step_time_s == pytest.approx(milliseconds / 1e3, rel=0.10)
    assert found.power_mean_w == pytest.approx(watts, rel=0.10)


def test_the_range_over_the_published_modes_is_reproduced() -> None:
    cpu_clocks = (268.8, 422.4, 576, 729.6, 883.2, 1036.8, 1190.4, 1344, 1497.6, 1510.4)
    points = [
        run(cores, cpu, emc, gpu)
        for cores in (2, 4, 6)
        for cpu in cpu_clocks
        for emc in (665.6, 2133)
        for gpu in (306, 510, 624.75)
    ]
    watts = np.array([point.rails.total_w for point in points])
    seconds = np.array([point.step_time_s for point in points])
    assert len(points) == 180
    assert watts.min() == pytest.approx(5.3, rel=0.10)
    assert watts.max() == pytest.approx(12.6, rel=0.10)
    assert seconds.min() == pytest.approx(0.172, rel=0.15)
    assert seconds.max() == pytest.approx(0.750, rel=0.15)
    assert 10 <= np.count_nonzero(watts <= 7) <= 40
    assert 120 <= np.count_nonzero(watts <= 10) <= 165


def test_rails_at_full_load_and_idle() -> None:
    full = run(4, 1510.4, 2133, 624.75).rails
    assert full.of(["cpu", "gpu"]) == pytest.approx(4.96, rel=0.1)
    assert full.soc_w == pytest.approx(2.56, rel=0.15)
    assert full.total_w > full.of(["cpu", "gpu", "soc"])
    assert idle_power_w(orin()) == pytest.approx(3.4, rel=0.10)


def test_throughput_saturates_with_the_batch() -> None:
    rates = [batch / run(6, 1510.4, 2133, 624.75, batch).step_time_s for batch in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert all(low < high for low, high in pairwise(rates))
    assert rates[1] / rates[0] > 1.3  # launches bound the small batches
    assert rates[-1] / rates[-2] < 1.02


def test_a_slow_cpu_bounds_small_batches_more_and_loaders_bound_large_ones() -> None:
    def slowdown(batch: int, cpu_mhz: float) -> float:
        return run(4, cpu_mhz, 2133, 624.75, batch).step_time_s / run(4, 1510.4, 2133, 624.75, batch).step_time_s

    assert slowdown(1, 729.6) > 1.4 > 1.1 > slowdown(64, 729.6)
    starved = run(2, 268.8, 2133, 624.75, 64)
    assert starved.load.gpu_busy < 0.5
    assert starved.load.cores_busy == pytest.approx(2, rel=0.02)


def test_power_rises_with_every_clock() -> None:
    base = (2, 729.6, 665.6, 306.0)
    lowest = run(*base).rails.total_w
    assert run(2, 729.6, 665.6, 510).rails.total_w > lowest
    assert run(2, 729.6, 2133, 306).rails.total_w > lowest
    assert run(2, 1510.4, 665.6, 306).rails.total_w > lowest
    assert run(4, 729.6, 665.6, 306).rails.total_w > lowest


def test_accumulation_pays_the_update_once() -> None:
    emulated, setting = device(), {"gpu_freq_mhz": 624.75, "batch_size": 1}
    once, often = emulated.predict(setting, RESNET), emulated.predict(setting, RESNET, accumulation=8)
    assert once.step_time_s is not None
    assert often.step_time_s is not None
    assert 0.5 * once.step_time_s < often.step_time_s < 0.95 * once.step_time_s


def test_a_batch_too_large_is_out_of_memory_at_every_clock() -> None:
    emulated = device()
    for gpu_mhz in (306, 624.75):
        fits = emulated.measure({"gpu_freq_mhz": gpu_mhz, "batch_size": 128}, RESNET, PLAN)
        too_large = emulated.measure({"gpu_freq_mhz": gpu_mhz, "batch_size": 256}, RESNET, PLAN)
        assert fits.ok
        assert too_large.status is Status.OOM
        assert too_large.reason is not None
        assert "MiB" in too_large.reason
        assert too_large.throughput is None
        assert too_large.cost_s > 0
        assert emulated.predict({"gpu_freq_mhz": gpu_mhz, "batch_size": 256}, RESNET).status is Status.OOM
    assert emulated.measure({"gpu_freq_mhz": 624.75, "batch_size": 256}, SMALL, PLAN).ok


def test_seven_watts_need_a_slower_cpu_or_memory() -> None:
    def best(preset: str) -> float:
        emulated = device(preset)
        found = [emulated.predict(setting, RESNET) for setting in emulated.describe().enumerate_settings()]
        return max((m.throughput or 0 for m in found if m.ok and (m.power_p95_w or 0) <= 7), default=0.0)

    assert best("15W") == 0
    assert best("4C-1510") == 0
    assert best("2C-730-EMC665") > 40  # about half of the unconstrained rate


# --- noise ----------------------------------------------------------------------------------------------------------


def without_cost(found: Measurement) -> dict[str, object]:
    document = found.to_json()
    del document["cost_s"], document["cost_j"]
    return document


def test_equal_calls_give_equal_answers_whatever_came_before() -> None:
    fresh, used = device(seed=3), device(seed=3)
    for batch in (1, 8, 64):
        used.measure({"gpu_freq_mhz": 306, "batch_size": batch}, RESNET, PLAN)
    first, later = fresh.measure(TOP, RESNET, PLAN), used.measure(TOP, RESNET, PLAN)
    assert without_cost(first) == without_cost(later)
    assert first.cost_s == pytest.approx(later.cost_s + 8.5)  # the first burst starts the trainer
    assert first.cost_j > later.cost_j
    assert fresh.measure(TOP, RESNET, PLAN) == later


def test_noise_differs_by_seed_replicate_setting_and_workload() -> None:
    def deviation(found: Measurement, expected: Measurement) -> float:
        assert found.throughput is not None
        assert expected.throughput is not None
        return found.throughput / expected.throughput

    other = {"gpu_freq_mhz": 612, "batch_size": 16}
    emulated = device()
    base, small, slow = emulated.predict(TOP, RESNET), emulated.predict(TOP, SMALL), emulated.predict(other, RESNET)
    deviations = {
        deviation(emulated.measure(TOP, RESNET, PLAN), base),
        deviation(emulated.measure(TOP, RESNET, BurstPlan(replicate=1)), base),
        deviation(device(seed=1).measure(TOP, RESNET, PLAN), base),
        deviation(emulated.measure(other, RESNET, PLAN), slow),
        deviation(emulated.measure(TOP, SMALL, PLAN), small),
    }
    assert len(deviations) == 5


def test_pinned_and_searched_clocks_are_the_same_board() -> None:
    pinned = device("2C-730")
    searched = device(search=["cpu_cores", "cpu_freq_mhz"])
    assert pinned.measure(TOP, RESNET, PLAN) == searched.measure(
        {**TOP, "cpu_cores": 2, "cpu_freq_mhz": 729.6}, RESNET, PLAN
    )


@pytest.mark.parametrize("preset", ["15W", "2C-422-EMC665"])
@pytest.mark.parametrize("window_s", [15, 60])
def test_standard_errors_are_honest(preset: str, window_s: float) -> None:
    emulated = device(preset)
    expected = emulated.predict(TOP, RESNET)
    found = [
        emulated.measure(TOP, RESNET, BurstPlan(min_s=window_s, max_s=window_s, replicate=replicate))
        for replicate in range(150)
    ]
    # The formula of the percentile overstates its error for correlated readings; it may not understate it.
    for name, sem_name, lowest, highest in (
        ("throughput", "throughput_sem", 0.8, 1.2),
        ("power_mean_w", "power_mean_sem_w", 0.8, 1.35),
        ("power_p95_w", "power_p95_sem_w", 0.55, 1.2),
    ):
        truth = getattr(expected, name)
        values = np.array([getattr(m, name) for m in found])
        sems = np.array([getattr(m, sem_name) for m in found])
        z = (values - truth) / sems
        assert lowest < np.sqrt((z**2).mean()) < highest, name
        assert (np.abs(z) < 1.96).mean() > 0.85, name
        assert abs(values.mean() / truth - 1) < 0.006, name


def test_the_ripple_sets_the_percentile_above_the_mean() -> None:
    found = device().measure(TOP, RESNET, BurstPlan(min_s=60, max_s=60))
    assert found.power_mean_w is not None
    assert found.power_p95_w is not None
    assert found.power_peak_w is not None
    assert 1.045 < found.power_p95_w / found.power_mean_w < 1.085
    assert found.power_peak_w > found.power_p95_w


def test_the_window_follows_the_plan() -> None:
    emulated = device()

    def window_s(**plan: float) -> float:
        duration_s = emulated.measure(TOP, RESNET, BurstPlan(**plan)).duration_s  # type: ignore[arg-type]
        assert duration_s is not None
        return duration_s

    assert window_s(tolerance=0.1) == pytest.approx(10, abs=0.3)
    assert window_s(tolerance=0.001) == pytest.approx(20, abs=0.3)
    assert 10.5 < window_s() < 19.5
    one_step = emulated.measure({"gpu_freq_mhz": 306, "batch_size": 128}, RESNET, BurstPlan(min_s=0.1, max_s=0.2))
    assert one_step.samples == 128


def test_the_parts_of_a_measurement_agree() -> None:
    emulated = device()
    emulated.measure(TOP, RESNET, PLAN)
    found = emulated.measure(TOP, RESNET, PLAN)
    assert found.samples is not None
    assert found.duration_s is not None
    assert found.energy_j is not None
    assert found.samples / found.duration_s == pytest.approx(found.throughput)
    assert found.energy_j / found.duration_s == pytest.approx(found.power_mean_w)
    assert found.energy_j / found.samples == pytest.approx(found.energy_per_sample_j)
    assert found.cost_s == pytest.approx(1 + 3 + found.duration_s)
    assert found.energy_j < found.cost_j < found.energy_j * 1.5
    inner_w = found.extra["vdd_cpu_gpu_cv_w"].value + found.extra["vdd_soc_w"].value
    assert 0.5 < inner_w / (found.power_mean_w or 0) < 0.7


# --- guard and abort ------------------------------------------------------------------------------------------------


def test_the_guard_ends_a_burst_far_above_the_cap() -> None:
    emulated = device()
    emulated.measure(TOP, RESNET, PLAN)
    truth, found = emulated.predict(TOP, RESNET), emulated.measure(TOP, RESNET, BurstPlan(cap_w=7.0))
    assert found.status is Status.OVER_CAP
    assert found.reason is not None
    assert "7 W" in found.reason
    assert found.power_mean_w is not None
    assert 7.7 < found.power_mean_w < 1.02 * (truth.power_mean_w or 0)
    assert found.throughput == pytest.approx(truth.throughput, rel=0.05)
    assert found.cost_s < 1 + 4  # a little more than two seconds of load
    assert found.cost_j > 0


def test_a_burst_slightly_above_the_cap_is_valid() -> None:
    emulated = device()
    mean_w = emulated.predict(TOP, RESNET).power_mean_w
    assert mean_w is not None
    assert emulated.measure(TOP, RESNET, BurstPlan(cap_w=mean_w)).ok
    assert emulated.measure(TOP, RESNET, BurstPlan(cap_w=mean_w)) == emulated.measure(TOP, RESNET, PLAN)


def test_abort_ends_the_running_burst_only() -> None:
    emulated = device()
    emulated.abort()
    assert emulated.measure(TOP, RESNET, PLAN).ok
    aborted = emulated.measure(TOP, RESNET, PLAN, on_event=lambda event: emulated.abort())
    assert aborted.status is Status.ABORTED
    assert aborted.throughput is None
    assert emulated.measure(TOP, RESNET, PLAN).ok


# --- description and settings ---------------------------------------------------------------------------------------


def test_description() -> None:
    info = device().describe()
    assert info.source == "emulated"
    assert [knob.name for knob in info.knobs] == ["gpu_freq_mhz", "batch_size"]
    assert list(info.knobs[1].values) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert info.default_statistic == "p95"
    assert info.held_fixed["preset"] == "15W"
    assert info.held_fixed["cpu_cores"] == 6
    assert info.default_setting == {"gpu_freq_mhz": 624.75, "batch_size": 32}
    assert EmulatedDevice(orin(), preset="15W", reference_batch=128).describe().default_setting == {
        "gpu_freq_mhz": 624.75,
        "batch_size": 128,
    }


def test_searched_knobs_follow_the_base_ones_and_are_not_held() -> None:
    info = device(search=["emc_freq_mhz", "cpu_cores"]).describe()
    assert [knob.name for knob in info.knobs] == ["gpu_freq_mhz", "batch_size", "emc_freq_mhz", "cpu_cores"]
    assert list(info.knobs[3].values) == [2, 4, 6]
    assert info.knobs[3].default == 6
    assert "cpu_cores" not in info.held_fixed
    assert info.held_fixed["cpu_freq_mhz"] == 1510.4


def test_a_preset_caps_the_gpu_and_says_what_it_does_not_do() -> None:
    info = device("7w").describe()
    assert list(info.knobs[0].values) == [306, 408]
    assert info.knobs[0].default == 408
    assert any("TPC" in note for note in info.notes)
    with pytest.raises(InputError, match="510"):
        EmulatedDevice(orin(), preset="7W", values={"gpu_freq_mhz": [510]})


def test_values_restrict_and_set() -> None:
    restricted = EmulatedDevice(orin(), preset="15W", values={"gpu_freq_mhz": [510, 306], "batch_size": [24, 12.0]})
    info = restricted.describe()
    assert list(info.knobs[0].values) == [306, 510]
    assert list(info.knobs[1].values) == [12, 24]
    assert restricted.measure({"gpu_freq_mhz": 510, "batch_size": 24}, RESNET, PLAN).ok
    assert info.default_setting is not None
    assert restricted.measure(info.default_setting, RESNET, PLAN).ok  # the stock setting can always be measured


@pytest.mark.parametrize(
    ("preset", "search", "values", "words"),
    [
        ("8W", [], {}, "15W"),
        ("15W", ["power_limit_w"], {}, "cpu_cores"),
        ("15W", ["fan"], {}, "emc_freq_mhz"),
        ("15W", [], {"cpu_freq_mhz": [729.6]}, "--search cpu_freq_mhz"),
        ("15W", [], {"fan": [1]}, "gpu_freq_mhz"),
        ("15W", [], {"gpu_freq_mhz": [500]}, "408, 510"),
        ("15W", ["cpu_cores"], {"cpu_cores": [3]}, "2, 4"),
        ("15W", [], {"batch_size": [0]}, "whole number"),
        ("15W", [], {"batch_size": [2.5]}, "whole number"),
        ("15W", [], {"batch_size": []}, "batch_size"),
    ],
)
def test_wrong_construction_names_the_choices(
    preset: str, search: list[str], values: dict[str, list[float]], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        EmulatedDevice(orin(), preset=preset, search=search, values=values)
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "setting",
    [
        {"gpu_freq_mhz": 624.75},
        {"gpu_freq_mhz": 624.75, "batch_size": 16, "emc_freq_mhz": 2133},
        {"gpu_freq_mhz": 600, "batch_size": 16},
        {"gpu_freq_mhz": 624.75, "batch_size": 17},
        {"gpu_freq_mhz": float("nan"), "batch_size": 16},
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(InputError):
        device().measure(setting, RESNET, PLAN)
    with pytest.raises(InputError):
        device().predict(setting, RESNET)


def test_interpolation_is_straight_between_points_and_constant_outside() -> None:
    curve = ((100.0, 1.0), (200.0, 3.0), (400.0, 4.0))
    assert [interpolate(curve, mhz) for mhz in (50, 100, 150, 300, 400, 500)] == [1, 1, 2, 3.5, 4, 4]


def test_a_knob_that_is_searched_anyway_may_be_named() -> None:
    named = device(search=["gpu_freq_mhz", "batch_size", "cpu_cores"]).describe()
    assert named.knobs == device(search=["cpu_cores"]).describe().knobs
