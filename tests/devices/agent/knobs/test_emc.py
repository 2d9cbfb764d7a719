"""The memory clock, by the files of each generation."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from devices.agent.board import BoardKnob
from devices.agent.failures import AgentError
from devices.agent.journal import put_back
from devices.agent.knobs import find_knobs
from devices.agent.knobs.emc import Emc
from devices.agent.sysfs import SysFs
from tests.devices.agent.knobs.kernels import EMC, FakeClock, Kernel, add_emc
from tests.devices.agent.trees import plant, put

ORIN = "204000000 665600000 2133000000 3199000000 "
OVERRIDE = "/sys/kernel/debug/clk/override.emc/"


def find(sysfs: SysFs) -> BoardKnob:
    knob = Emc.find(sysfs, FakeClock())
    assert knob is not None
    assert knob.name == "emc_freq_mhz"
    return knob


def orin(root: Path) -> Kernel:
    plant("orin-nano-jp5", root)
    add_emc(root, ORIN, 204000000, 3199000000)
    return Kernel(str(root), "5.15")


@pytest.mark.parametrize(
    ("tree", "listed", "low", "high", "steps"),
    [
        ("orin-nano-jp5", ORIN, 204000000, 2133000000, [204, 665.6, 2133]),
        ("orin-nano-jp5", None, 204000000, 2133000000, [204, 665.6, 2133]),
        ("orin-nano-super-jp6", None, 204000000, 3199000000, [204, 665.6, 2133, 3199]),
        ("xavier-nx-jp5", None, 204000000, 1866000000, [204, 800, 1333, 1600, 1866]),
        ("thor-jp7", None, 665600000, 4266000000, [665.6, 4266]),  # whose rates nobody has seen: its ends
    ],
)
def test_rates_are_those_between_the_boards_own_ends(
    tree: str, listed: str | None, low: int, high: int, steps: list[float], tmp_path: Path
) -> None:
    sysfs = plant(tree, tmp_path)
    add_emc(tmp_path, listed, low, high)
    assert find(sysfs).steps == steps


@pytest.mark.parametrize("tree", ["orin-nano-jp5", "nano-jp4", "rpi5", "rapl-intel", "xavier-nx-jp4"])
def test_a_board_that_shows_no_memory_clock_has_no_knob(tree: str, tmp_path: Path) -> None:
    assert Emc.find(plant(tree, tmp_path), FakeClock()) is None


def test_a_memory_clock_without_ends_is_a_named_problem(tmp_path: Path) -> None:
    problems = find_knobs(plant("orin-nano-super-jp6", tmp_path), FakeClock())[1]
    assert any(EMC + "min_rate cannot be read: No such file" in problem.what for problem in problems)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("max_rate", "fast", "max_rate holds 'fast'"),
        ("min_rate", "", "min_rate is empty"),
        ("max_rate", "1000", "no range"),
        ("possible_rates", "", "possible_rates is empty"),
        ("possible_rates", "2133000000 Hz", "possible_rates holds 'Hz'"),
        ("possible_rates", "5000000000", "lists no rate between 204000000 and 3199000000 Hz"),
    ],
)
def test_garbage_is_a_named_problem(name: str, text: str, what: str, tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    put(tmp_path, EMC + name, text)
    knobs, problems = find_knobs(sysfs, FakeClock())
    assert all(knob.name != "emc_freq_mhz" for knob in knobs)
    assert any(what in problem.what for problem in problems)


def test_only_root_sees_it(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    sysfs.refuses = errno.EACCES
    problem = next(problem for problem in find_knobs(sysfs, FakeClock())[1] if "memory" in problem.what)
    assert problem.what.startswith("the memory clock can only be read and set by root")
    assert "sudo" in problem.mend


@pytest.mark.parametrize(
    ("name", "cap", "allowed"),
    [
        ("nvpmodel_clk_cap/emc", "2133000000", (204, 2133)),
        ("nvpmodel_clk_cap/emc", "0", (204, 3199)),
        ("nvpmodel_clk_cap/emc", "none", (204, 3199)),
        ("nvpmodel_emc_cap/emc_iso_cap", "1600000000", (204, 665.6)),
    ],
)
def test_a_cap_of_the_power_mode_narrows_the_range(
    name: str, cap: str, allowed: tuple[float, float], tmp_path: Path
) -> None:
    sysfs = orin(tmp_path)
    put(tmp_path, "sys/kernel/" + name, cap)
    knob = find(sysfs)
    assert knob.allowed() == allowed
    narrowed = [(name in problem.what, "sudo nvpmodel -m" in problem.mend) for problem in knob.narrowed()]
    assert narrowed == ([(True, True)] if allowed[1] < 3199 else [])


def test_it_is_locked_then_set_and_unlocked_again(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    knob = find(sysfs)
    found = {name: sysfs.read(name) for name in knob.files()}
    assert list(found) == [EMC + "mrq_rate_locked", EMC + "state"]  # an unlocked rate moves by itself
    knob.hold(665.6)
    assert sysfs.log == [("mrq_rate_locked", "1"), ("rate", "665600000"), ("state", "1")]
    assert knob.fault(665.6, True) is None
    assert list(found) == knob.files()
    knob.hold(2133)
    assert knob.fault(2133, True) is None
    assert put_back(sysfs, FakeClock(), found).failed == []
    assert sysfs.read(EMC + "mrq_rate_locked") == "0"
    fault = knob.fault(2133, True)
    assert fault is not None
    assert fault.status == "clock_not_applied"
    assert fault.reason.startswith(f"reset during the burst: {EMC}mrq_rate_locked holds 0")


def test_a_rate_that_was_locked_comes_back(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    put(tmp_path, EMC + "mrq_rate_locked", "1")  # by jetson_clocks
    knob = find(sysfs)
    found = {name: sysfs.read(name) for name in knob.files()}
    knob.hold(665.6)
    knob.hold(204)
    assert put_back(sysfs, FakeClock(), found).failed == []
    assert sysfs.read(EMC + "rate") == "3199000000"


def test_a_clamped_rate_is_said(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    sysfs.caps["emc"] = 2133000000
    knob = find(sysfs)
    knob.hold(3199)
    fault = knob.fault(3199, False)
    assert fault is not None
    assert fault.reason.startswith("memory clock: asked 3199 MHz, got 2133 MHz")


def test_what_is_no_rate_or_not_allowed_is_refused(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    knob = find(sysfs)
    with pytest.raises(AgentError, match="emc_freq_mhz has no step 800"):
        knob.hold(800)
    sysfs.refuses = errno.EROFS
    with pytest.raises(AgentError, match="read-only mount"):
        knob.hold(665.6)
    assert ["read-only mount" in problem.what for problem in knob.problems()] == [True]


def test_what_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    sysfs = orin(tmp_path)
    knob = find(sysfs)
    put(tmp_path, EMC + "rate", "?")
    put(tmp_path, EMC + "mrq_rate_locked", "1")
    fault = knob.fault(665.6, True)
    assert fault is not None
    assert EMC + "rate holds '?'" in fault.reason


def test_the_override_of_the_nano(tmp_path: Path) -> None:
    plant("nano-jp4", tmp_path)
    for name, text in (("clk_state", "0"), ("clk_update_rate", "1600000000")):
        put(tmp_path, OVERRIDE + name, text)
    put(tmp_path, "sys/kernel/debug/tegra_bwmgr/emc_min_rate", "40800000")
    put(tmp_path, "sys/kernel/debug/tegra_bwmgr/emc_max_rate", "1600000000")
    sysfs = Kernel(str(tmp_path), "4.9")
    knob = find(sysfs)
    assert knob.steps == [40.8, 1600]
    assert knob.files() == [OVERRIDE + "clk_state"]
    knob.hold(1600)
    assert sysfs.log == [("clk_update_rate", "1600000000"), ("clk_state", "1")]
    assert knob.fault(1600, True) is None
    put(tmp_path, OVERRIDE + "clk_rate", "40800000")  # what the clock is, where the kernel shows it
    assert knob.fault(1600, True) is not None


def test_the_bandwidth_manager_of_thor(tmp_path: Path) -> None:
    plant("thor-jp7", tmp_path)
    folder = "/sys/class/devfreq/bwmgr/"
    for name, text in (("min", "665600000"), ("max", "4266000000"), ("cur", "665600000")):
        put(tmp_path, f"{folder}{name}_freq", text)
    put(tmp_path, folder + "available_frequencies", "665600000 2133000000 4266000000")
    sysfs = Kernel(str(tmp_path), "6.8")
    knob = find(sysfs)
    assert knob.steps == [665.6, 2133, 4266]
    assert knob.files() == [folder + "min_freq", folder + "max_freq"]
    knob.hold(2133)
    assert knob.fault(2133, True) is None
    put(tmp_path, folder + "available_frequencies", "")
    assert any("the memory has no clock to set" in problem.what for problem in find_knobs(sysfs, FakeClock())[1])
