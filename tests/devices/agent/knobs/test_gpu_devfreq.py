"""The GPU's clock: found on every board, held on every kernel, and never said to hold when it does not."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.agent.failures import AgentError
from devices.agent.journal import put_back
from devices.agent.knobs import find_knobs
from devices.agent.knobs.gpu_devfreq import GpuDevfreq
from devices.agent.sysfs import SysFs
from tests.devices.agent.knobs.kernels import KERNELS, FakeClock, Kernel, kernel
from tests.devices.agent.trees import plant, put

SUPER = [306.0, 408.0, 510.0, 612.0, 714.0, 816.0, 918.0, 1020.0]
XAVIER = [114.75, 204.0, 306.0, 408.0, 510.0, 599.25, *(701.25 + 51 * i for i in range(9))]
GPU = "sys/class/devfreq/17000000.gpu/"


def find(sysfs: SysFs) -> GpuDevfreq:
    knob = GpuDevfreq.find(sysfs, FakeClock())
    assert knob is not None
    return knob


def limits(sysfs: SysFs) -> tuple[str, str]:
    return sysfs.read("/" + GPU + "min_freq"), sysfs.read("/" + GPU + "max_freq")


@pytest.mark.parametrize(
    ("tree", "entry", "steps", "allowed"),
    [
        ("orin-nano-super-jp6", "17000000.gpu", SUPER, (306, 918)),
        ("orin-nano-jp5", "17000000.ga10b", [306, 408, 510, 612, 624.75], (306, 624.75)),
        ("xavier-nx-jp5", "17000000.gv11b", XAVIER, (114.75, 510)),
        ("xavier-nx-jp4", "17000000.gv11b", XAVIER, (114.75, 1109.25)),
        ("nano-jp4", "57000000.gpu", [round(76.8 * i, 1) for i in range(1, 13)], (76.8, 921.6)),
        ("agx-orin-jp6", "17000000.gpu", [*range(306, 1225, 102), 1300.5], (306, 1300.5)),
        ("thor-jp7", "gpu-gpc-0", [315, 1575], (315, 1575)),
    ],
)
def test_each_board_is_read(
    tree: str, entry: str, steps: list[float], allowed: tuple[float, float], tmp_path: Path
) -> None:
    knob = find(plant(tree, tmp_path))
    assert knob.name == "gpu_freq_mhz"
    assert knob.steps == steps
    assert knob.allowed() == allowed
    assert knob.default() == allowed[1]
    assert knob.files()[-2:] == [f"/sys/class/devfreq/{entry}/{end}_freq" for end in ("min", "max")]
    narrowed = [problem for problem in knob.narrowed() if "open now" in problem.what]
    assert len(narrowed) == (allowed != (steps[0], steps[-1]))


@pytest.mark.parametrize("tree", ["rpi5", "rapl-intel"])
def test_a_machine_without_such_a_gpu_has_no_knob(tree: str, tmp_path: Path) -> None:
    assert GpuDevfreq.find(plant(tree, tmp_path), FakeClock()) is None


def test_of_the_domains_of_thor_the_graphics_clusters_are_held(tmp_path: Path) -> None:
    sysfs = plant("thor-jp7", tmp_path)
    for entry in ("gpu-nvd-0", "gpu-gpc-1"):
        put(tmp_path, f"sys/class/devfreq/{entry}/available_frequencies", "315000000 945000000 1575000000")
        put(tmp_path, f"sys/class/devfreq/{entry}/min_freq", "315000000")
        put(tmp_path, f"sys/class/devfreq/{entry}/max_freq", "1575000000")
        put(tmp_path, f"sys/class/devfreq/{entry}/cur_freq", "315000000")
    control = "/sys/bus/pci/devices/0000:01:00.0/power/control"
    put(tmp_path, control, "auto")
    knob = find(sysfs)
    assert knob.steps == [315, 1575]  # what both have
    assert knob.files() == [
        control,
        *(f"/sys/class/devfreq/gpu-gpc-{i}/{end}_freq" for i in (0, 1) for end in ("min", "max")),
    ]
    knob.hold(1575)
    assert sysfs.read(control) == "on"
    assert sysfs.read("/sys/class/devfreq/gpu-gpc-1/min_freq") == "1575000000"
    assert sysfs.read("/sys/class/devfreq/gpu-nvd-0/min_freq") == "315000000"


@pytest.mark.parametrize(("cap", "top"), [("950000000", 918), ("1020000000", 1020), ("1", 306)])
def test_a_cap_that_is_no_step_means_the_next_lower_one(cap: str, top: float, tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, GPU + "max_freq", cap)
    assert find(sysfs).allowed() == (306, top)


def test_what_narrows_the_range_is_said_with_what_mends_it(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    conf = (
        "< POWER_MODEL ID=1 NAME=25W >\nGPU MAX_FREQ 918000000\n< POWER_MODEL ID=2 NAME=MAXN_SUPER >\nGPU MAX_FREQ -1"
    )
    put(tmp_path, "etc/nvpmodel.conf", conf)
    put(tmp_path, GPU + "min_freq", "510000000")
    upper, lower = find(sysfs).narrowed()
    assert "306 to 1020 MHz, of which only 510 to 918 MHz are open now: the power mode" in upper.what
    assert upper.mend.endswith("sudo nvpmodel -m 2 (MAXN_SUPER)")
    assert "jetson_clocks" in lower.what
    assert lower.mend.startswith("sudo jetson_clocks --restore, or echo 306000000 | sudo tee /sys/class/devfreq/")


@pytest.mark.parametrize("text", ["", "306000000 fast", "0 1", "-5", "3.06e8", "\x00\xff"])
def test_a_table_that_is_none_is_a_named_problem(text: str, tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    put(tmp_path, GPU + "available_frequencies", text)
    knobs, problems = find_knobs(sysfs, FakeClock())
    assert all(knob.name != "gpu_freq_mhz" for knob in knobs)
    assert f"/{GPU}available_frequencies" in problems[0].what
    assert "dmesg" in problems[0].mend


def test_a_table_or_a_gpu_that_is_missing_is_a_named_problem(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    (tmp_path / GPU / "available_frequencies").unlink()
    assert "No such file" in find_knobs(sysfs, FakeClock())[1][0].what
    (tmp_path / "sys/class/devfreq/17000000.gpu").unlink()
    assert find_knobs(sysfs, FakeClock())[1][0].what == "no GPU clock was found in /sys/class/devfreq"


@pytest.mark.parametrize("text", [None, "", "many"])
def test_limits_that_cannot_be_read_hold_nothing(text: str | None, tmp_path: Path) -> None:
    sysfs = plant("orin-nano-super-jp6", tmp_path)
    file = tmp_path / GPU / "max_freq"
    file.unlink()
    if text is not None:
        put(tmp_path, GPU + "max_freq", text)
    knob = find(sysfs)
    assert knob.allowed() == (306, 1020)
    assert any("max_freq" in problem.what for problem in knob.problems())
    fault = knob.fault(510, False)
    assert fault is not None
    assert "max_freq" in fault.reason


@pytest.mark.parametrize("version", KERNELS)
@pytest.mark.parametrize("value", SUPER[:-1])
def test_a_held_step_is_held_and_given_back(value: float, version: str, tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, version)
    knob = find(sysfs)
    found = {name: sysfs.read(name) for name in knob.files()}
    assert [name.rpartition("/")[2] for name in found] == ["railgate_enable", "control", "min_freq", "max_freq"]
    sysfs.low_by = 0.012
    for step in (value, 306.0, value, 918.0, value):
        knob.hold(step)
        assert knob.fault(step, True) is None
        assert limits(sysfs) == (str(int(step * 1e6)),) * 2
    device = "/sys/class/devfreq/17000000.gpu/device/"
    assert sysfs.read(device + "railgate_enable") == "0"
    assert sysfs.read(device + "power/control") == "on"
    assert put_back(sysfs, FakeClock(), found) == (list(found), [])
    assert {name: sysfs.read(name) for name in found} == found
    assert sysfs.log[-1] == ("railgate_enable", "1")  # the device may sleep again only when its limits are back


@pytest.mark.parametrize("version", KERNELS)
def test_limits_are_written_in_the_order_that_4_9_wants(version: str, tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-jp5", tmp_path, version)
    knob = find(sysfs)
    knob.hold(306)
    sysfs.log.clear()
    sysfs.idle = True  # the current clock must not decide
    knob.hold(612)
    assert [name for name, _ in sysfs.log[-2:]] == ["max_freq", "min_freq"]
    knob.hold(408)
    assert [name for name, _ in sysfs.log[-2:]] == ["min_freq", "max_freq"]
    assert {text for _, text in sysfs.log[-2:]} == {"408000000"}


@pytest.mark.parametrize("version", KERNELS)
def test_a_clamped_step_is_said_with_the_clock_it_got(version: str, tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, version)
    sysfs.caps["17000000.gpu"] = 918_000_000
    knob = find(sysfs)
    knob.hold(1020)
    fault = knob.fault(1020, False)
    assert fault is not None
    assert fault.status == "clock_not_applied"
    assert fault.reason.startswith("asked 1020 MHz, got 918 MHz: the power mode (nvpmodel) or the temperature clamps ")
    knob.hold(816)
    assert knob.fault(816, True) is None


def test_a_value_that_is_no_step_is_refused_before_any_write(tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, "5.15")
    with pytest.raises(AgentError, match="gpu_freq_mhz has no step 640") as caught:
        find(sysfs).hold(640)
    assert caught.value.kind == "input"
    assert sysfs.log == []


@pytest.mark.parametrize(
    ("number", "what", "mend"),
    [
        (errno.EACCES, "may only be written by root", "sudo"),
        (errno.EPERM, "may only be written by root", "sudo"),
        (errno.EROFS, "read-only mount, as /sys does in a container", "--privileged"),
    ],
)
def test_why_nothing_can_be_written_is_said(number: int, what: str, mend: str, tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-jp5", tmp_path, "5.15")
    sysfs.refuses = number
    knob = find(sysfs)
    with pytest.raises(AgentError) as caught:
        knob.hold(408)
    assert caught.value.kind == "device"
    assert what in caught.value.message
    assert mend in (caught.value.hint or "")
    assert [(what in problem.what, mend in problem.mend) for problem in knob.problems()] == [(True, True)]


def test_another_refusal_is_passed_on(tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-jp5", tmp_path, "5.15")
    sysfs.refuses = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        find(sysfs).hold(408)


@pytest.mark.parametrize("version", KERNELS)
@pytest.mark.parametrize(
    ("low_by", "status"), [(0.012, None), (-0.01, None), (0.222, "throttled"), (-0.05, "clock_not_applied")]
)
def test_the_clock_under_load_decides(low_by: float, status: str | None, version: str, tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, version)
    knob = find(sysfs)
    knob.hold(918)
    sysfs.low_by = low_by
    assert knob.fault(918, False) is None  # an idle clock says nothing
    fault = knob.fault(918, True)
    assert (fault.status if fault else None) == status
    if status == "throttled":
        assert fault is not None
        assert "ran at 714.204 MHz, although 918 MHz are held" in fault.reason


def test_a_railgated_gpu_has_no_clock_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, "5.15")
    clock = FakeClock()
    knob = GpuDevfreq.find(sysfs, clock)
    assert knob is not None
    sysfs.idle = True
    knob.hold(918)
    assert clock.now < 1  # it waits for a clock that does not come, but not for long
    assert knob.fault(918, False) is None
    sysfs.idle = False
    read = Kernel.read
    wakes_s = 0.0

    def sleeping(self: Kernel, name: str) -> str:
        if name.endswith("cur_freq") and clock.now < wakes_s:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return read(self, name)

    monkeypatch.setattr(Kernel, "read", sleeping)
    wakes_s = clock.now + 0.2
    assert knob.fault(918, False) is None
    assert knob.fault(918, True) is None  # the work has just begun
    wakes_s = float("inf")
    knob.hold(816)
    assert knob.fault(816, False) is None
    before_s = clock.now
    fault = knob.fault(816, True)
    assert fault is not None
    assert fault.status == "clock_not_applied"
    assert fault.reason.startswith("the GPU's clock cannot be read while it works: /sys/class/devfreq/")
    assert clock.now - before_s < 1


@pytest.mark.parametrize("version", KERNELS)
def test_another_writer_is_noticed(version: str, tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, version)
    knob = find(sysfs)
    knob.hold(510)
    for name, text in (("max_freq", "918000000"), ("min_freq", "306000000")):
        sysfs.write("/" + GPU + name, text)
    fault = knob.fault(510, True)
    assert fault is not None
    assert fault.status == "clock_not_applied"
    assert fault.reason.startswith("reset during the burst: min/max are now 306/918 MHz, 510 MHz was asked")
    knob.hold(510)
    assert knob.fault(510, True) is None


def test_heat_that_clamps_a_running_burst_is_no_reset(tmp_path: Path) -> None:
    sysfs = kernel("orin-nano-super-jp6", tmp_path, "5.15")
    knob = find(sysfs)
    knob.hold(918)
    sysfs.caps["17000000.gpu"] = 714_000_000
    fault = knob.fault(918, True)
    assert fault is not None
    assert fault.reason.startswith("asked 918 MHz, got 714 MHz")


@settings(max_examples=60, deadline=None)
@given(
    version=st.sampled_from(KERNELS),
    moves=st.lists(
        st.tuples(st.sampled_from(SUPER), st.sampled_from([None, 10**12, 918_000_000, 640_000_000, 306_000_000])),
        max_size=8,
    ),
    others=st.lists(st.tuples(st.sampled_from(["min_freq", "max_freq"]), st.sampled_from(SUPER)), max_size=8),
)
def test_after_any_holds_the_step_holds_or_a_fault_says_why(
    version: str, moves: list[tuple[float, int | None]], others: list[tuple[str, float]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sysfs = kernel("orin-nano-super-jp6", Path(folder), version)
        knob = find(sysfs)
        found = {name: sysfs.read(name) for name in knob.files()}
        for i, (step, cap) in enumerate(moves):
            if cap is not None:
                sysfs.caps["17000000.gpu"] = cap
            knob.hold(step)
            fault = knob.fault(step, True)
            text = str(int(step * 1e6))
            assert (fault is None) == (limits(sysfs) == (text, text))
            if fault is None:
                assert sysfs.read("/" + GPU + "cur_freq") == text
            else:
                assert fault.status == "clock_not_applied"
                assert sysfs.caps.get("17000000.gpu", 10**12) < step * 1e6
            for name, value in others[i : i + 1]:  # another program, where the kernel lets it
                try:
                    sysfs.write("/" + GPU + name, str(int(value * 1e6)))
                except OSError as error:
                    assert error.errno == errno.EINVAL  # noqa: PT017
        sysfs.caps.clear()
        assert put_back(sysfs, FakeClock(), found).failed == []
        assert {name: sysfs.read(name) for name in found} == found
