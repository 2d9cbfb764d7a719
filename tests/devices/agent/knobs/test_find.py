"""What a machine has: each board's knobs, and that no file makes the search fail."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.agent.knobs import find_knobs
from devices.agent.sysfs import SysFs
from tests.devices.agent.knobs.kernels import CPUS, FakeClock, add_cpus, add_emc
from tests.devices.agent.trees import NAMES, plant, put

GPU, CORES, CPU, EMC = "gpu_freq_mhz", "cpu_cores", "cpu_freq_mhz", "emc_freq_mhz"
FOUND = {
    "agx-orin-jp6": [GPU],
    "nano-jp4": [GPU, CPU],
    "orin-nano-jp5": [GPU],
    "orin-nano-super-jp6": [GPU],
    "rapl-intel": [],
    "rpi5": [CPU],
    "thor-jp7": [GPU],
    "xavier-nx-jp4": [GPU],
    "xavier-nx-jp5": [GPU],
}


@pytest.mark.parametrize("tree", NAMES)
def test_the_knobs_of_each_board(tree: str, tmp_path: Path) -> None:
    before = plant(tree, tmp_path)
    texts = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    knobs, _ = find_knobs(before, FakeClock())
    assert [knob.name for knob in knobs] == FOUND[tree]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == texts


def full_board(root: Path) -> SysFs:
    sysfs = plant("orin-nano-jp5", root)
    add_cpus(root, 6, {0: (0, 1, 2, 3), 4: (4, 5)}, (729600, 1510400))
    add_emc(root, "204000000 2133000000", 204000000, 2133000000)
    return sysfs


def test_a_full_board_has_all_in_the_order_in_which_they_are_set(tmp_path: Path) -> None:
    knobs, problems = find_knobs(full_board(tmp_path), FakeClock())
    assert [knob.name for knob in knobs] == [GPU, CORES, CPU, EMC]
    assert problems == []
    assert [problem for knob in knobs for problem in (*knob.problems(), *knob.narrowed())] == []


FILES = [
    "sys/devices/platform/17000000.ga10b/of_node/name",
    *(f"sys/class/devfreq/17000000.ga10b/{name}_freq" for name in ("min", "max", "cur")),
    "sys/class/devfreq/17000000.ga10b/available_frequencies",
    *(f"{CPUS}cpufreq/policy4/scaling_{name}" for name in ("available_frequencies", "min_freq", "max_freq")),
    *(CPUS + name for name in ("online", "cpu3/online", "cpufreq/policy4/affected_cpus")),
    *(f"sys/kernel/debug/bpmp/debug/clk/emc/{name}" for name in ("min_rate", "max_rate", "possible_rates", "rate")),
    "sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
    "proc/device-tree/compatible",
]
WRONG = st.sampled_from(
    [None, "folder", "loop", "pipe", b"", b"\0", b"-1", b"0", b"\xff\xfe", b"9" * 30, b"1 2 x", b"306000000"]
)


@settings(max_examples=80, deadline=None)
@given(wrong=st.dictionaries(st.sampled_from(FILES), WRONG, min_size=1, max_size=5))
def test_whatever_files_hold_nothing_is_raised(wrong: dict[str, bytes | str | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sysfs = full_board(Path(folder))
        for name, content in wrong.items():
            path = Path(folder) / name.lstrip("/")
            path.unlink()
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif content == "folder":
                path.mkdir()
            elif content == "loop":
                path.symlink_to(path.name)
            elif content == "pipe":
                os.mkfifo(path)
        knobs, problems = find_knobs(sysfs, FakeClock())
        for knob in knobs:
            low, high = knob.allowed()
            assert low in knob.steps
            assert high in knob.steps
            assert low <= knob.default() <= high
            assert all(step > 0 for step in knob.steps)
            problems += [*knob.problems(), *knob.narrowed()]
            fault = knob.fault(knob.default(), True)
            assert fault is None or fault.reason
        assert all(problem.what and problem.mend for problem in problems)


def test_an_empty_machine_has_nothing(tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", "")
    assert find_knobs(SysFs(str(tmp_path)), FakeClock()) == ([], [])
