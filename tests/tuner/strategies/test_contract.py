from __future__ import annotations

from pathlib import Path

import pytest

from devices.errors import InputError
from tuner.strategies import STRATEGIES, Strategy, open_strategy
from tuner.testing import StrategyContract, drive, toy_measurement, toy_problem


@pytest.mark.parametrize("name", list(STRATEGIES))
class TestStrategies(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        if name == "mode-table":
            pytest.skip("it serves boards of the catalog, and the contract's toy is none: see test_mode_table.py")
        if name in ("optuna-tpe", "optuna-gp", "taste"):
            pytest.importorskip("optuna")
        return open_strategy(name)


def test_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean sobol"):
        open_strategy("sobel")


def test_grid_goes_through_the_whole_space_low_clocks_first() -> None:
    problem = toy_problem()
    trials, state = drive(open_strategy("grid"), problem, toy_measurement, 99)
    assert [trial.setting for trial in trials] == list(problem.space.settings)
    assert state is None


def test_sobol_exhausts_the_space() -> None:
    problem = toy_problem(clocks=3, batches=3)
    trials, _ = drive(open_strategy("sobol"), problem, toy_measurement, 99)
    assert len(trials) == len(problem.space)


def test_ax_begins_at_the_safe_start_and_not_in_the_centre() -> None:
    problem = toy_problem(clocks=5, batches=5)
    trials, _ = drive(open_strategy("ax"), problem, toy_measurement, 1)
    assert trials[0].setting == {"gpu_freq_mhz": 300, "batch_size": 4}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ax_finds_the_best_setting_under_the_cap(seed: int) -> None:
    problem = toy_problem(clocks=6, batches=6, cap_w=9.0, seed=seed)
    values = {problem.space.key(s): toy_measurement(s) for s in problem.space.settings}
    best = max(m.throughput or 0 for m in values.values() if (m.power_mean_w or 0) <= 9.0)
    trials, _ = drive(open_strategy("ax"), problem, toy_measurement, 25)
    found = max(
        t.measurement.throughput or 0 for t in trials if t.measurement and (t.measurement.power_mean_w or 99) <= 9
    )
    assert found >= 0.98 * best


def test_importing_a_strategy_is_silent(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "from tuner.strategies import STRATEGIES, open_strategy; [open_strategy(n) for n in STRATEGIES]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == ""
