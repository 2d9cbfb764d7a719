from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devices.errors import InputError, UnsupportedError
from tests.tuner.arena.scripted import HAND, P95, ScriptedStrategy, at, make_profile, register
from tuner.arena import ArenaError, Compared, Contest, Run, Skipped, Table, compare, parse_caps, read_tables, summarize
from tuner.arena.contest import CONFIRMATIONS


@pytest.fixture
def hand(tmp_path: Path) -> Table:
    return Table("hand.csv", make_profile(HAND, tmp_path))


def run_one(contest: Contest) -> Run:
    (run,) = compare(contest, jobs=1).runs
    return run


def test_one_study_exactly(hand: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [at(600, 32), at(300, 16), at(600, 64), at(600, 8)])
    run = run_one(Contest((hand,), ("scripted",), parse_caps("50%"), bursts=10))
    assert (run.profile, run.cap_w, run.cap_on, run.strategy, run.seed) == ("hand.csv", 8.0, "mean", "scripted", 0)
    assert run.settings == (at(600, 32), at(300, 16), at(600, 64), at(600, 8))  # exact: nothing to confirm
    assert run.regret == pytest.approx((1, 1 / 3, 1 / 3, 0))
    assert (run.violations, run.violations_over_5pct, run.worst_overshoot_w) == (1, 1, 4.0)
    assert run.frozen is not None
    assert (run.frozen.setting, run.frozen.regret, run.frozen.power_w) == (at(600, 8), 0.0, 7.0)
    assert len(run.suggest_s) == 5  # one for each setting, and the one that converged
    assert all(seconds >= 0 for seconds in run.suggest_s)
    assert run.search_time_s == pytest.approx(5 + 8 + 8 + 8)  # at the first setting the table says 2 s
    assert (run.stopped, run.source) == ("converged", "replayed")


def test_no_baseline_is_measured_and_confirmation_is(hand: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [at(300, 8), at(300, 16)])
    contest = Contest((hand,), ("scripted",), parse_caps("9W"), bursts=10, noise_throughput=0.02, noise_power=0.01)
    run = run_one(contest)
    assert run.settings == (at(300, 8), at(300, 16), at(300, 16))
    assert run.frozen is not None
    assert run.frozen.throughput == 20.0  # the recorded value, not the noisy one


def test_lut_has_the_whole_grid_for_its_budget(hand: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [*hand.profile.settings])
    runs = compare(Contest((hand,), ("lut", "scripted"), parse_caps("50%"), bursts=2), jobs=1).runs
    assert [len(run.settings) for run in runs] == [8, 2]  # exact: nothing to confirm
    contest = Contest((hand,), ("lut", "scripted"), bursts=2)
    assert [contest.budget(task) for task in contest.tasks()] == [8 + CONFIRMATIONS, 2]


def test_confirmations_do_not_come_out_of_the_table_of_lut(hand: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [*hand.profile.settings])
    run = run_one(Contest((hand,), ("lut",), parse_caps("9W"), bursts=2, noise_throughput=0.02, noise_power=0.01))
    tried = [tuple(setting.items()) for setting in run.settings]
    assert len(set(tried)) == len(hand.profile.settings)
    assert tried.index(tried[-1]) < 8 < len(tried)  # the last is a confirmation
    assert run.frozen is not None


def test_the_order_of_the_studies(hand: Table, tmp_path: Path) -> None:
    other = Table("p95.csv", make_profile(P95, tmp_path, "p95.csv"))
    contest = Contest((hand, other), ("sobol", "grid", "sobol"), parse_caps("6W,25%,50%"), seeds=2)
    tasks = [(t.table, t.cap_w, t.strategy, t.seed) for t in contest.tasks()]
    caps = [(0, 6.0), (0, 8.0), (1, 6.0), (1, 5.0)]  # 25 % of the first is 6 W, and 50 % of the second: each once
    assert tasks == [
        (i, cap, s, seed) for i, cap in [caps[0], caps[1], *caps[2:]] for s in ("sobol", "grid") for seed in (0, 1)
    ]
    assert (contest.statistic(hand), contest.statistic(other)) == ("mean", "p95")
    assert replace(contest, tables=(other,), cap_on="peak").statistic(other) == "peak"


def test_strategies_that_do_not_apply_are_skipped(hand: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    other = Table("p95.csv", make_profile(P95, tmp_path, "p95.csv"))
    compared = compare(Contest((hand, other), ("refusing",), parse_caps("25%,75%"), seeds=2, bursts=3), jobs=1)
    assert {run.profile for run in compared.runs} == {"hand.csv"}
    assert compared.skipped == (Skipped("refusing", "p95.csv", "it tunes the batch size (another strategy)"),)
    assert compared.exit_status == 0
    assert compare(replace(compared.contest, tables=(other,)), jobs=1).exit_status == 1


def test_an_error_of_a_strategy_names_the_study(hand: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, crash=ZeroDivisionError("division by zero"))
    with pytest.raises(ArenaError, match=r"scripted on hand.csv \(8 W, seed 0\) failed: ZeroDivisionError"):
        compare(Contest((hand,), ("scripted",), parse_caps("50%")), jobs=1)


def test_ctrl_c_keeps_what_was_made(hand: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [at(300, 8)])

    def press(done: int, total: int, found: Run | Skipped) -> None:
        if done == 2:
            raise KeyboardInterrupt

    compared = compare(Contest((hand,), ("scripted",), seeds=5), 1, press)
    assert (len(compared.runs), compared.total, compared.interrupted, compared.exit_status) == (2, 5, True, 130)


def without_times(compared: Compared) -> list[dict[str, Any]]:
    return [{key: value for key, value in run.items() if key != "suggest_s"} for run in compared.to_json()]


def test_the_number_of_jobs_changes_nothing(hand: Table) -> None:
    contest = Contest(
        (hand,), ("sobol", "grid"), parse_caps("50%"), seeds=2, bursts=3, noise_throughput=0.02, noise_power=0.01
    )
    told: list[int] = []
    two = compare(contest, 2, lambda done, total, found: told.append(done))
    assert told == [1, 2, 3, 4]
    assert without_times(two) == without_times(compare(contest, 1))
    document = json.loads(json.dumps(two.to_json(), allow_nan=False))
    assert [(run["strategy"], run["seed"]) for run in document] == [
        ("sobol", 0),
        ("sobol", 1),
        ("grid", 0),
        ("grid", 1),
    ]


def test_transfer(hand: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [at(300, 8)])
    other = Table("other.csv", make_profile(HAND.replace("300,8,10,4", "300,8,11,4"), tmp_path, "other.csv"))
    compare(Contest((hand,), ("scripted",), parse_caps("50%"), transfer=(other,)), jobs=1)
    assert set(ScriptedStrategy.priors) == {1}
    lines = HAND.splitlines()
    shuffled = "\n".join(["# workload: another-name", lines[2], *reversed(lines[3:])]) + "\n"
    with pytest.raises(InputError, match="the table being tuned"):
        Contest((hand,), ("sobol",), transfer=(Table("copy.csv", make_profile(shuffled, tmp_path, "copy.csv")),))
    alien = Table("alien.csv", make_profile("cpu_cores,throughput,status\n1,1,ok\n", tmp_path, "alien.csv"))
    with pytest.raises(InputError, match=r"--transfer alien.csv lacks "):
        Contest((hand,), ("sobol",), transfer=(alien,))


def test_files_named_twice_are_one(tmp_path: Path) -> None:
    make_profile(HAND, tmp_path)
    make_profile(P95, tmp_path, "p95.csv")
    tables = read_tables([Path("hand.csv"), Path("p95.csv"), tmp_path / "hand.csv"])
    assert [table.name for table in tables] == ["hand.csv", "p95.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategies": ("sobl",)}, "did you mean sobol"),
        ({"strategies": ()}, "a strategy"),
        ({"tables": ()}, "a profile"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": -3}, "seeds"),
        ({"bursts": 0}, "bursts"),
        ({"noise_power": 2.0}, "between 0 and 1"),
        ({"noise_throughput": float("nan")}, "between 0 and 1"),
        ({"cap_on": "p95"}, "does not record the p95"),
        ({"caps": (), "cap_on": "mean"}, "without a cap"),
    ],
)
def test_what_cannot_be_compared(hand: Table, options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"tables": (hand,), "strategies": ("sobol",), "caps": parse_caps("50%"), **options}
    with pytest.raises(InputError, match=words):
        Contest(**given)


def test_jobs(hand: Table) -> None:
    with pytest.raises(InputError, match="one job or more"):
        compare(Contest((hand,), ("sobol",)), jobs=0)


def test_a_profile_without_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [{"batch_size": 1}, {"batch_size": 2}])
    table = Table("b.csv", make_profile("batch_size,throughput,status\n1,10,ok\n2,20,ok\n", tmp_path, "b.csv"))
    with pytest.raises(UnsupportedError, match=r"b.csv does not record power_mean_w in every valid row"):
        Contest((table,), ("scripted",), parse_caps("7W"))
    run = run_one(Contest((table,), ("scripted",)))
    assert (run.cap_w, run.cap_on, run.energies_j, run.violations) == (None, None, (), 0)
    assert run.frozen is not None
    assert (run.frozen.regret, run.frozen.power_w) == (0.0, None)
    (row,) = summarize([run])
    assert (row.search_j, row.to_two_percent) == (None, 2.0)
