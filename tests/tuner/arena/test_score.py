"""Each figure of the contract, on a table whose answers can be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices.device import BurstPlan, WorkloadSpec
from tests.tuner.arena.scripted import HAND, P95, at, make_profile
from tuner.arena import Table
from tuner.arena.score import Burst, figures_of, frozen_of
from tuner.arena.study_run import MeteredReplay
from tuner.arena.truth import Truth


def hand(folder: Path, cap_w: float | None) -> Truth:
    return Truth(make_profile(HAND, folder), cap_w, "mean")


def test_optimum_and_certifiable(tmp_path: Path) -> None:
    figures = figures_of([], hand(tmp_path, 8.0))
    assert figures["optimum"] == {"setting": at(600, 8), "throughput": 30.0}
    assert figures["certifiable"] == figures["optimum"]
    edge = figures_of([], hand(tmp_path, 8.3))  # 8.2 W is within 8.3 W, not within 98 % of it
    assert edge["optimum"]["throughput"] == 40.0
    assert edge["certifiable"]["throughput"] == 30.0
    lowest = figures_of([], hand(tmp_path, 4.0))
    assert lowest["optimum"]["throughput"] == 10.0
    assert lowest["certifiable"] is None
    assert figures_of([], hand(tmp_path, 3.0))["optimum"] is None


def test_regret_violations_and_costs(tmp_path: Path) -> None:
    bursts = [
        Burst(at(600, 32), 1, 5.0, 60.0),  # 12 W: far above
        Burst(at(600, 64), 1, 8.0, 0.0),  # out of memory: no power, no violation
        Burst(at(300, 16), 1, 8.0, 48.0),
        Burst(at(600, 16), 1, 8.0, 65.6),  # 8.2 W: above by 2.5 %
        Burst(at(600, 8), 3, 18.0, 126.0),  # a confirmation of three times the length
    ]
    figures = figures_of(bursts, hand(tmp_path, 8.0))
    assert figures["settings"] == (at(600, 32), at(600, 64), at(300, 16), at(600, 16), *[at(600, 8)] * 3)
    assert figures["regret"] == pytest.approx((1, 1, 1 / 3, 1 / 3, 0, 0, 0))
    assert figures["violations"] == 2
    assert figures["violations_over_5pct"] == 1
    assert figures["worst_overshoot_w"] == pytest.approx(4.0)
    assert figures["times_s"] == pytest.approx((5, 13, 21, 29, 35, 41, 47))
    assert figures["energies_j"] == pytest.approx((60, 60, 108, 173.6, 215.6, 257.6, 299.6))
    assert figures["search_time_s"] == pytest.approx(47)
    assert figures["search_energy_j"] == pytest.approx(299.6)


def test_a_long_burst_above_the_cap_counts_for_its_length(tmp_path: Path) -> None:
    figures = figures_of([Burst(at(600, 32), 3, 18.0, 1.0)], hand(tmp_path, 8.0))
    assert (figures["violations"], figures["violations_over_5pct"], len(figures["regret"])) == (3, 3, 3)


def test_the_length_of_a_burst_is_that_of_its_plan(tmp_path: Path) -> None:
    device = MeteredReplay(Table("hand", make_profile(HAND, tmp_path)), seed=0, noise_throughput=0.0, noise_power=0.0)
    for plan in (BurstPlan(), BurstPlan(min_s=30.0, max_s=60.0), BurstPlan(min_s=1.0, max_s=5.0)):
        device.measure(at(300, 8), WorkloadSpec("toy-net"), plan)
    assert [burst.length for burst in device.bursts] == [1, 3, 1]
    assert [burst.cost_s for burst in device.bursts] == [8.0, 15.0, 5.0]


def test_frozen(tmp_path: Path) -> None:
    truth = hand(tmp_path, 8.3)
    held = frozen_of(at(300, 32), truth)
    assert held is not None
    assert (held.throughput, held.power_w, held.feasible) == (24.0, 7.9, True)
    assert held.regret == pytest.approx(1 - 24 / 40)
    assert held.regret_certifiable == pytest.approx(1 - 24 / 30)
    better = frozen_of(at(600, 16), truth)
    assert better is not None
    assert (better.regret, better.regret_certifiable) == (0.0, 0.0)  # faster than what is certifiable: never below 0
    above = frozen_of(at(600, 32), truth)
    assert above is not None
    assert (above.regret, above.feasible, above.power_w) == (0.0, False, 12.0)
    hopeless = frozen_of(at(300, 8), hand(tmp_path, 3.0))
    assert hopeless is not None
    assert (hopeless.regret, hopeless.regret_certifiable) == (None, None)
    assert frozen_of(at(300, 64), truth) is None


def test_nothing_is_feasible(tmp_path: Path) -> None:
    figures = figures_of([Burst(at(300, 8), 1, 8.0, 1.0)], hand(tmp_path, 3.0))
    assert figures["regret"] == (1.0,)
    assert (figures["violations"], figures["worst_overshoot_w"]) == (1, pytest.approx(1.0))


def test_without_a_cap_everything_that_trains_is_feasible(tmp_path: Path) -> None:
    profile = make_profile("batch_size,throughput,status\n1,10,ok\n2,20,ok\n4,,oom\n", tmp_path)
    bursts = [Burst({"batch_size": b}, 1, 8.0, 0.0) for b in (4, 1, 2)]
    figures = figures_of(bursts, Truth(profile, None, "mean"))
    assert figures["regret"] == pytest.approx((1, 0.5, 0))
    assert figures["optimum"] == figures["certifiable"] == {"setting": {"batch_size": 2}, "throughput": 20.0}
    assert (figures["violations"], figures["worst_overshoot_w"], figures["energies_j"]) == (0, 0, ())


def test_the_statistic_decides(tmp_path: Path) -> None:
    profile = make_profile(P95, tmp_path)
    found = {s: Truth(profile, 8.0, s).optimum for s in ("mean", "p95", "peak")}
    assert {s: cell.throughput for s, cell in found.items() if cell} == {"mean": 30.0, "p95": 20.0, "peak": 10.0}
    assert Truth(profile, 8.0, "p95").power_w({"gpu_freq_mhz": 300}) == 11.0


def test_replicates_count_by_their_mean(tmp_path: Path) -> None:
    rows = "1,10,6,ok\n1,20,8,ok\n1,,,crashed\n2,30,9,ok\n"
    truth = Truth(make_profile("batch_size,throughput,power_mean_w,status\n" + rows, tmp_path), 7.0, "mean")
    assert truth.optimum is not None
    assert (truth.optimum.throughput, truth.power_w({"batch_size": 1})) == (15.0, 7.0)
    assert truth.overshoot_w({"batch_size": 1}) == 0


def test_bursts_that_a_guard_ended(tmp_path: Path) -> None:
    rows = "1,10,6,ok\n2,,9,over_cap\n4,,,over_cap\n8,,6.5,over_cap\n16,,,crashed\n"
    truth = Truth(make_profile("batch_size,throughput,power_mean_w,status\n" + rows, tmp_path), 7.0, "mean")
    bursts = [Burst({"batch_size": b}, 1, 8.0, 0.0) for b in (1, 2, 4, 8, 16)]
    figures = figures_of(bursts, truth)
    assert figures["violations"] == 2  # a lower bound below the cap (6.5 W) says nothing; a guard without a figure does
    assert figures["violations_over_5pct"] == 1
    assert figures["worst_overshoot_w"] == pytest.approx(2.0)
    assert not truth.is_feasible({"batch_size": 8})
