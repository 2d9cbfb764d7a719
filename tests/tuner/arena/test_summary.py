from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from devices.errors import InputError, UnsupportedError
from tests.tuner.arena.scripted import HAND, make_profile
from tuner.arena import Compared, Contest, Frozen, Run, Table, parse_caps, summarize
from tuner.arena.summary import NEVER, bursts_to, curve
from tuner.report.arena import contest_text, summary_markdown, summary_tables
from tuner.report.arena_plot import SUFFIXES, check_plot, draw_regret

BEST = {"setting": {"batch_size": 8}, "throughput": 100.0}


def frozen(regret: float, power_w: float = 7.9) -> Frozen:
    return Frozen({"batch_size": 8}, 100 * (1 - regret), regret, regret, power_w, power_w <= 8)


def make_run(regret: tuple[float, ...], **changes: Any) -> Run:
    run = Run(
        profile="hand.csv", cap_w=8.0, cap_on="mean", strategy="a", seed=0, source="replayed", optimum=BEST,
        certifiable=BEST, settings=tuple({"batch_size": 8} for _ in regret), regret=regret, violations=1,
        violations_over_5pct=0, worst_overshoot_w=0.1, frozen=frozen(0.01), suggest_s=(0.1, 0.3),
        times_s=tuple(8.0 * i for i in range(1, len(regret) + 1)),
        energies_j=tuple(50.0 * i for i in range(1, len(regret) + 1)),
        search_time_s=8.0 * len(regret), search_energy_j=50.0 * len(regret), stopped="converged",
    )  # fmt: skip
    return replace(run, **changes)


def test_the_figures_of_a_strategy() -> None:
    runs = [
        make_run((1.0, 0.5, 0.02), frozen=frozen(0.02)),
        make_run((1.0, 0.01), violations=3, violations_over_5pct=2, frozen=frozen(0.05), suggest_s=(0.5,)),
        make_run((1.0, 0.5, 0.1, 0.1), frozen=frozen(0.1, power_w=8.09)),
        make_run((1.0,), frozen=None),
        make_run((1.0, 1.0), optimum=None, certifiable=None, frozen=None),
        make_run((0.0,), strategy="b", frozen=frozen(0.0, power_w=8.07)),
    ]
    a, b = summarize(runs)
    assert (a.strategy, a.studies, b.strategy, b.studies) == ("a", 5, "b", 1)
    assert a.to_two_percent == (3 + NEVER) / 2  # of 2, 3, 99, 99
    assert a.to_two_percent_p90 == NEVER
    assert a.within_two_percent == 1 / 4
    assert a.within_seven_percent == 2 / 4
    assert a.bursts == (3 + 2 + 4 + 1 + 2) / 5
    assert (a.violations, a.violations_over_5pct) == (7 / 5, 2 / 5)
    assert a.frozen_above == 1 / 3
    assert a.regret == pytest.approx(0.17 / 3)
    assert a.suggest_s == pytest.approx(0.3)
    assert (a.search_s, a.search_j) == (8 * 12 / 5, 50 * 12 / 5)
    assert b.frozen_above == 0  # above by less than 1 %
    assert bursts_to(runs[0], 0.02) == 3


def test_regret_along_a_cost() -> None:
    runs = [make_run((1.0, 0.5, 0.0)), make_run((0.8, 0.4)), make_run((1.0,), optimum=None)]
    along = curve(runs, "seconds", np.array([0.0, 7.9, 8.0, 16.0, 24.0, 99.0]))
    assert along is not None
    assert along.at.tolist() == [0.0, 7.9, 8.0, 16.0, 24.0, 99.0]
    assert along.median == pytest.approx([1, 1, 0.9, 0.45, 0.2, 0.2])  # a study that ended keeps what it found
    assert along.low == pytest.approx([1, 1, 0.85, 0.425, 0.1, 0.1])
    level = curve(runs, "seconds", np.linspace(0, 7, 50))
    assert level is not None
    assert len(level.at) == 2
    assert curve(runs[2:], "bursts", np.array([1.0])) is None


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    contest = Contest((Table("hand.csv", make_profile(HAND, tmp_path)),), ("sobol",), parse_caps("50%,9W"), seeds=2)
    names = [f"coordinate-descent-{i}" for i in range(12)]
    runs = tuple(make_run((1.0, 0.5 / (i + 1), 0.01 * i), strategy=name) for i, name in enumerate(names))
    return Compared(contest, runs, (), len(runs))


def test_the_table_fits_into_80_columns(compared: Compared) -> None:
    console = Console(width=80, record=True)
    tables = summary_tables(summarize(compared.runs), 80)
    for table in tables:
        console.print(table)
    text = console.export_text()
    assert len(tables) == 2
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert text.count("coordinate-descent-11") == 2
    assert len(summary_tables(summarize(compared.runs), 200)) == 1
    assert all(Console().measure(table).maximum <= 60 for table in summary_tables(summarize(compared.runs), 60))
    assert summary_markdown(summarize(compared.runs)).count("\n") == 14
    assert contest_text(compared.contest) == (
        "1 profile (replayed), caps 50 %, 9 W on mean power, 2 seeds, at most 25 bursts, no noise"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_figures(compared: Compared, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    check_plot(path)
    draw_regret(compared, path)
    content = path.read_bytes()
    assert content.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
    if suffix == ".svg":
        for words in (b"replayed", b"bursts", b"(s)", b"(J)", b"coordinate-descent-11"):
            assert words in content
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_figures_of_little(compared: Compared, tmp_path: Path) -> None:
    nothing = replace(compared, runs=(make_run((1.0,), optimum=None, frozen=None),))
    draw_regret(nothing, tmp_path / "nothing.svg")
    assert b"no study has a feasible setting" in (tmp_path / "nothing.svg").read_bytes()
    unmetered = replace(compared, runs=(make_run((0.0,), energies_j=(), search_energy_j=0.0),))
    draw_regret(unmetered, tmp_path / "unmetered.svg")
    assert b"no power is recorded" in (tmp_path / "unmetered.svg").read_bytes()


def test_what_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        check_plot(Path("figure.bmp"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="matplotlib") as error:
        check_plot(Path("figure.png"))
    assert error.value.hint == "pip install 'taste-tuner[arena]'"
