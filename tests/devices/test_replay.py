"""Replay: recorded values come back as recorded, noise is a function, costs and refusals are as promised."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest

from devices.device import BurstPlan, Setting, WorkloadSpec
from devices.errors import InputError, UnsupportedError
from devices.measurement import Measurement, Status
from devices.profile import Profile, ProfileMetadata, ProfileRow
from devices.replay import ReplayDevice

WORKLOAD = WorkloadSpec("resnet18")


def row(clock: float, batch: float, status: Status = Status.OK, **metrics: float) -> ProfileRow:
    return ProfileRow({"gpu_freq_mhz": clock, "batch_size": batch}, status, **metrics)  # type: ignore[arg-type]


ROWS = (
    row(306, 8, throughput=20.0, step_time_s=0.4, power_mean_w=4.0, power_p95_w=4.5, duration_s=12.0, energy_j=48.0),
    row(306, 16, throughput=25.0, power_mean_w=4.2, power_p95_w=4.8, duration_s=3.0, samples=75.0),
    row(612, 8, throughput=36.0, power_mean_w=6.0, power_p95_w=6.6),
    row(612, 8, throughput=40.0, power_mean_w=6.4, power_p95_w=6.9),
    row(612, 8, throughput=38.0, power_mean_w=6.2, power_p95_w=6.9),
    row(612, 16, Status.OOM),
)


def profile(rows: tuple[ProfileRow, ...] = ROWS, **metadata: Any) -> Profile:
    return Profile(ProfileMetadata(device="bench board", **metadata), ("gpu_freq_mhz", "batch_size"), rows)


def at(clock: float, batch: float) -> Setting:
    return {"gpu_freq_mhz": clock, "batch_size": batch}


def measure(device: ReplayDevice, clock: float, batch: float, **plan: Any) -> Measurement:
    return device.measure(at(clock, batch), WORKLOAD, BurstPlan(**plan))


def test_describe() -> None:
    info = ReplayDevice(profile(default_setting=at(612, 8), throughput_unit="images/s")).describe()
    assert (info.name, info.model, info.source) == ("bench board", "bench board", "replayed")
    assert [(knob.name, knob.values, knob.default) for knob in info.knobs] == [
        ("gpu_freq_mhz", (306, 612), 612),
        ("batch_size", (8, 16), 8),
    ]
    assert info.statistics == ("p95", "mean")
    assert info.default_statistic == "p95"
    assert info.meter
    assert info.throughput_unit == "images/s"
    assert info.settings is None
    assert info.default_setting == at(612, 8)
    assert info.notes == ()


def test_an_emulated_profile_never_replays_as_a_measurement() -> None:
    device = ReplayDevice(profile(provenance="emulated"))
    assert device.describe().source == "emulated"
    assert measure(device, 306, 8).source == "emulated"


def test_the_assumed_default_is_the_highest_that_trained_and_said() -> None:
    info = ReplayDevice(profile()).describe()
    assert info.default_setting == at(612, 8)
    assert "is assumed" in info.notes[0]
    batch_first = Profile(
        ProfileMetadata(),
        ("batch_size", "gpu_freq_mhz"),
        (row(306, 16, throughput=3.0), row(612, 8, throughput=2.0), row(612, 4, throughput=1.0)),
    )
    info = ReplayDevice(batch_first).describe()
    assert info.default_setting == at(612, 8)
    assert info.name == "recorded profile"
    assert info.model is None


def test_missing_cells_are_left_out_of_the_settings() -> None:
    device = ReplayDevice(profile((ROWS[0], *ROWS[2:])))
    info = device.describe()
    assert list(info.enumerate_settings()) == [at(306, 8), at(612, 8), at(612, 16)]
    with pytest.raises(InputError, match="gpu_freq_mhz=306, batch_size=16 was not recorded"):
        measure(device, 306, 16)


def test_recorded_values_come_back_exactly() -> None:
    found = measure(ReplayDevice(profile()), 306, 8)
    assert found == Measurement(
        Status.OK,
        "replayed",
        throughput=20.0,
        throughput_sem=0.0,
        step_time_s=0.4,
        power_mean_w=4.0,
        power_mean_sem_w=0.0,
        power_p95_w=4.5,
        power_p95_sem_w=0.0,
        energy_per_sample_j=0.2,
        energy_j=48.0,
        duration_s=12.0,
        cost_s=8.0,
        cost_j=32.0,
    )


def test_replicates_come_in_recorded_order_with_their_spread() -> None:
    device = ReplayDevice(profile())
    found = [measure(device, 612, 8, replicate=replicate) for replicate in range(4)]
    assert [m.throughput for m in found] == [36, 40, 38, 36]
    assert [m.power_mean_w for m in found] == [6.0, 6.4, 6.2, 6.0]
    assert found[0].throughput_sem == pytest.approx(2.0)
    assert found[0].power_mean_sem_w == pytest.approx(0.2)
    assert found[0].power_p95_sem_w == pytest.approx(statistics.stdev([6.6, 6.9, 6.9]))


def test_the_spread_of_valid_replicates_leaves_failed_ones_out() -> None:
    stopped = row(306, 8, Status.OVER_CAP, power_mean_w=9.0, power_p95_w=9.5)
    device = ReplayDevice(profile((*ROWS, stopped)))
    found = [measure(device, 306, 8, replicate=replicate) for replicate in (0, 1)]
    assert [m.status for m in found] == [Status.OK, Status.OVER_CAP]
    assert [m.power_mean_w for m in found] == [4.0, 9.0]
    assert [m.power_mean_sem_w for m in found] == [0.0, 0.0]


def test_failed_bursts_come_back_with_their_status() -> None:
    found = measure(ReplayDevice(profile()), 612, 16)
    assert (found.status, found.reason) == (Status.OOM, "recorded as oom")
    assert (found.throughput, found.throughput_sem, found.power_mean_w, found.cost_s) == (None, None, None, 8.0)


def test_energy_is_by_unit_of_throughput() -> None:
    found = measure(ReplayDevice(profile(throughput_unit="epochs/h")), 306, 8)
    assert found.energy_per_sample_j == pytest.approx(4.0 * 3600 / 20)


def test_costs() -> None:
    device = ReplayDevice(profile())
    costs = [
        measure(device, 306, 16),  # 3 s recorded, first burst counts as a change
        measure(device, 306, 16, replicate=1),
        measure(device, 612, 8),  # none recorded
        measure(device, 306, 8),  # 12 s recorded
        measure(device, 306, 8, min_s=40.0),
    ]
    assert [m.cost_s for m in costs] == [6, 3, 8, 8, 20]
    assert [m.cost_j for m in costs] == pytest.approx([6 * 4.2, 3 * 4.2, 8 * 6, 8 * 4, 20 * 4])


def test_noise_depends_on_seed_setting_and_replicate_alone() -> None:
    def noisy(seed: int = 1) -> ReplayDevice:
        return ReplayDevice(profile(), seed=seed, noise_throughput=0.1, noise_power=0.05)

    device = noisy()
    first = measure(device, 306, 8)
    measure(device, 612, 8)
    assert measure(device, 306.0, 8.0).throughput == first.throughput
    assert measure(noisy(), 306, 8) == first
    others = [measure(noisy(2), 306, 8), measure(device, 306, 8, replicate=1), measure(device, 306, 16)]
    factors = {(m.throughput or 0) / recorded for m, recorded in zip(others, (20, 20, 25), strict=True)}
    assert len(factors | {(first.throughput or 0) / 20}) == 4


def test_noise_does_not_depend_on_how_a_number_is_written() -> None:
    floats = tuple(replace(r, setting={name: float(value) for name, value in r.setting.items()}) for r in ROWS)
    devices = [ReplayDevice(profile(rows), noise_throughput=0.1) for rows in (ROWS, floats)]
    assert measure(devices[0], 306, 8) == measure(devices[1], 306, 8)


def test_noise_keeps_the_measurement_consistent() -> None:
    device = ReplayDevice(profile(), noise_throughput=0.1, noise_power=0.05)
    found = measure(device, 306, 8)
    assert found.throughput != 20
    assert (found.throughput or 0) * (found.step_time_s or 0) == pytest.approx(8)
    assert found.energy_j == pytest.approx(12 * (found.power_mean_w or 0))
    assert (found.power_p95_w or 0) / (found.power_mean_w or 1) == pytest.approx(4.5 / 4)
    assert found.throughput_sem == pytest.approx(0.1 * (found.throughput or 0))
    assert found.power_p95_sem_w == pytest.approx(0.05 * (found.power_p95_w or 0))
    other = measure(device, 306, 16)
    assert other.samples == pytest.approx(3 * (other.throughput or 0))


def test_noise_has_the_size_asked_for_and_shrinks_with_length() -> None:
    device = ReplayDevice(profile(), noise_throughput=0.1, noise_power=0.02)

    def logs(name: str, recorded: float, **plan: float) -> list[float]:
        found = [measure(device, 306, 8, replicate=index, **plan) for index in range(600)]
        return [math.log(getattr(m, name) / recorded) for m in found]

    for name, recorded, noise in (("throughput", 20, 0.1), ("power_mean_w", 4, 0.02)):
        usual, long = logs(name, recorded), logs(name, recorded, min_s=40.0)
        assert statistics.stdev(usual) == pytest.approx(noise, rel=0.1)
        assert statistics.fmean(usual) == pytest.approx(0, abs=0.2 * noise)
        assert long == pytest.approx([value / 2 for value in usual])
    correlation = statistics.correlation(logs("throughput", 20), logs("power_mean_w", 4))
    assert abs(correlation) < 0.15
    short = measure(device, 306, 8, min_s=1.0)
    assert short.throughput == measure(device, 306, 8).throughput


def test_noise_adds_to_the_spread_of_replicates() -> None:
    found = measure(ReplayDevice(profile(), noise_throughput=0.05), 612, 8)
    assert found.throughput_sem == pytest.approx(math.hypot(2.0, 0.05 * (found.throughput or 0)))
    assert found.power_mean_sem_w == pytest.approx(0.2)


def test_a_value_off_the_grid_names_the_nearest() -> None:
    device = ReplayDevice(profile())
    with pytest.raises(InputError, match=r"batch_size=13 .* nearest is 16") as refusal:
        measure(device, 306, 13)
    assert refusal.value.hint == "use batch_size=16"
    with pytest.raises(InputError, match="each knob"):
        device.measure({"batch_size": 8}, WORKLOAD, BurstPlan())
    with pytest.raises(InputError, match="each knob"):
        device.measure({**at(306, 8), "cpu_cores": 4}, WORKLOAD, BurstPlan())


def test_a_refusal_costs_nothing() -> None:
    device = ReplayDevice(profile())
    measure(device, 306, 8)
    with pytest.raises(InputError):
        measure(device, 306, 13)
    assert measure(device, 306, 8).cost_s == 5


def test_a_cap_needs_recorded_power() -> None:
    rows = tuple(replace(r, power_mean_w=None, power_p95_w=None) for r in ROWS)
    device = ReplayDevice(profile(rows))
    info = device.describe()
    assert (info.statistics, info.meter) == ((), None)
    assert "no power" in info.notes[-1]
    with pytest.raises(UnsupportedError, match="no cap can be held"):
        measure(device, 306, 8, cap_w=5.0)
    assert measure(device, 306, 8).throughput == 20


def test_a_cap_holds_on_a_recorded_statistic() -> None:
    device = ReplayDevice(profile())
    with pytest.raises(UnsupportedError, match="peak") as refusal:
        measure(device, 306, 8, cap_w=5.0, statistic="peak")
    assert refusal.value.hint == "use --cap-on p95"
    above = measure(device, 612, 8, cap_w=5.0, statistic="mean")
    assert above.ok  # above the cap is a valid measurement


def test_values_restrict_the_knobs() -> None:
    device = ReplayDevice(profile(default_setting=at(612, 8)), values={"gpu_freq_mhz": [306]})
    info = device.describe()
    assert [knob.values for knob in info.knobs] == [(306,), (8, 16)]
    assert info.settings is None
    assert info.default_setting == at(306, 16)  # the recorded one is not among the values: the note says so
    assert "gpu_freq_mhz=612, batch_size=8" in info.notes[0]
    with pytest.raises(InputError, match="nearest is 306"):
        measure(device, 612, 8)
    assert ReplayDevice(profile(), values={"gpu_freq_mhz": [306.0]}).describe().default_setting == at(306, 16)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"gpu_freq_mhz": [300]}, "nearest is 306"),
        ({"cpu_cores": [4]}, "no knob 'cpu_cores'"),
        ({"gpu_freq_mhz": []}, "has no value"),
        ({"gpu_freq_mhz": [612], "batch_size": [16]}, "no valid measurement"),
    ],
)
def test_values_that_were_not_recorded_are_refused(values: dict[str, list[float]], word: str) -> None:
    with pytest.raises(InputError, match=word):
        ReplayDevice(profile(), values=values)


@pytest.mark.parametrize("noise", [-0.1, math.nan, math.inf])
def test_impossible_noise_is_refused(noise: float) -> None:
    with pytest.raises(InputError, match="noise"):
        ReplayDevice(profile(), noise_power=noise)
