"""A fake board by its files: what the kernel refuses, clamps, rounds and shows."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.doctor import examine
from devices.agent.sysfs import SysFs
from devices.agent.thermal import alert_files, over_current_files, temperatures
from devices.device import WorkloadSpec
from devices.errors import InputError
from devices.fake.board import FakeBoard
from devices.fake.faults import FAULTS, Fault
from devices.fake.layout import LAYOUTS
from devices.fake.sysfs import FakeSysFs
from devices.fake.tree import plant
from devices.fake.work import IDLE, TRAIN, load

GPU = "/sys/class/devfreq/17000000.ga10b"
POLICY = "/sys/devices/system/cpu/cpufreq/policy{}"
POWER = "/sys/class/hwmon/hwmon1/"
WORKLOAD = WorkloadSpec("resnet18")


class StandStill(Clock):
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Bench:
    """A board, its files and its time."""

    def __init__(self, model: str = "jetson-orin-nano", **options: object) -> None:
        self.time = StandStill()
        self.board = FakeBoard(model, clock=self.time, **options)  # type: ignore[arg-type]
        self.sysfs = FakeSysFs(self.board)

    def later(self, seconds: float) -> None:
        self.time.now_s += seconds

    def train(self, batch: int = 16, settle_s: float = 0.0) -> None:
        """Begin a burst and take its first step."""
        self.board.write("/.fake-board-work", _request(batch))
        self.later(1.01)
        self.board.report()
        self.later(settle_s)

    def gpu(self, name: str) -> int:
        return int(self.sysfs.read(f"{GPU}/{name}_freq"))

    def watts(self) -> float:
        return int(self.sysfs.read(POWER + "in1_input")) * int(self.sysfs.read(POWER + "curr1_input")) / 1e6


def _request(batch: int) -> str:
    return json.dumps({"do": "burst", "workload": WORKLOAD.to_json(), "micro_batch": batch, "accumulation": 1})


def refused(bench: Bench, name: str, text: str) -> int | None:
    """The error number of a write, None where it is taken."""
    try:
        bench.sysfs.write(name, text)
    except OSError as error:
        return error.errno
    return None


# ---- limits of clocks


def test_kernel_4_9_refuses_limits_that_cross() -> None:
    bench = Bench(kernel="4.9")
    assert refused(bench, GPU + "/max_freq", "408000000") is None
    assert refused(bench, GPU + "/min_freq", "510000000") == errno.EINVAL
    assert refused(bench, GPU + "/min_freq", "408000000") is None
    assert refused(bench, GPU + "/max_freq", "306000000") == errno.EINVAL
    assert (bench.gpu("min"), bench.gpu("max")) == (408000000, 408000000)


def test_later_kernels_take_limits_that_cross_and_the_upper_one_wins() -> None:
    bench = Bench(kernel="5.10")
    bench.sysfs.write(GPU + "/max_freq", "408000000")
    bench.sysfs.write(GPU + "/min_freq", "612000000")
    assert (bench.gpu("min"), bench.gpu("max")) == (408000000, 408000000)
    bench.sysfs.write(GPU + "/max_freq", "0")  # no limit
    assert (bench.gpu("min"), bench.gpu("max")) == (612000000, 624750000)


def test_later_kernels_keep_limits_in_khz_outwards() -> None:
    bench = Bench(kernel="5.15")
    bench.sysfs.write(GPU.replace("ga10b", "gpu") + "/max_freq", "510000001")
    bench.sysfs.write(GPU.replace("ga10b", "gpu") + "/min_freq", "509999999")
    folder = GPU.replace("ga10b", "gpu")
    assert bench.sysfs.read(folder + "/max_freq") == "510001000"
    assert bench.sysfs.read(folder + "/min_freq") == "509999000"


def test_a_power_mode_clamps_silently() -> None:
    bench = Bench("jetson-orin-nano-super")
    folder = "/sys/class/devfreq/17000000.gpu"
    assert bench.sysfs.read(folder + "/max_freq") == "918000000"
    bench.sysfs.write(folder + "/max_freq", "1020000000")
    bench.sysfs.write(folder + "/min_freq", "1020000000")
    assert bench.sysfs.read(folder + "/max_freq") == bench.sysfs.read(folder + "/min_freq") == "918000000"


def test_what_is_no_step_is_rounded_silently() -> None:
    bench = Bench("jetson-nano")
    folder = "/sys/class/devfreq/57000000.gpu"
    bench.sysfs.write(folder + "/max_freq", "640000000")
    assert bench.sysfs.read(folder + "/max_freq") == "640000000"
    bench.train(batch=2)
    now = [int(bench.sysfs.read(folder + "/cur_freq")) for _ in range(50)]
    assert all(0.985 * 614400000 <= value < 614400000 for value in now)


@pytest.mark.parametrize("text", ["", "fast", "-1", "5.1e8", "1" * 20])
@pytest.mark.parametrize("name", [GPU + "/min_freq", GPU + "/max_freq", POLICY.format(0) + "/scaling_max_freq"])
def test_what_is_no_number_is_refused(name: str, text: str) -> None:
    assert refused(Bench(), name, text) == errno.EINVAL


def test_a_held_clock_jitters_under_load_only() -> None:
    bench = Bench()
    bench.sysfs.write(GPU + "/../../railgate_enable", "0")
    bench.sysfs.write(GPU + "/min_freq", "510000000")
    bench.sysfs.write(GPU + "/max_freq", "510000000")
    assert {bench.gpu("cur") for _ in range(20)} == {510000000}
    bench.train()
    low = [1 - bench.gpu("cur") / 510e6 for _ in range(300)]
    assert min(low) >= 0.0019
    assert max(low) <= 0.0121
    assert max(low) - min(low) > 0.005
    assert bench.sysfs.read(GPU + "/target_freq") == "510000000"


def test_without_power_the_gpu_shows_a_sleeping_clock_and_no_temperature() -> None:
    bench = Bench("jetson-orin-nano-super")
    folder = "/sys/class/devfreq/17000000.gpu"
    bench.sysfs.write(folder + "/min_freq", "612000000")
    assert bench.sysfs.read(folder + "/cur_freq") == "306000000"
    zone = next(
        f"/sys/class/thermal/{name}"
        for name in bench.sysfs.list("/sys/class/thermal")
        if bench.sysfs.read_or(f"/sys/class/thermal/{name}/type") == "gpu-thermal"
    )
    with pytest.raises(OSError, match="unavailable") as caught:
        bench.sysfs.read(zone + "/temp")
    assert caught.value.errno == errno.EAGAIN
    bench.sysfs.write(folder + "/device/power/control", "on")
    assert 25000 < int(bench.sysfs.read(zone + "/temp")) < 50000
    assert bench.sysfs.read(folder + "/cur_freq") == "612000000"
    assert refused(bench, folder + "/device/power/control", "off") == errno.EINVAL


def test_cpus_go_off_and_their_policy_takes_nothing_then() -> None:
    bench = Bench()
    cpus = "/sys/devices/system/cpu/"
    assert bench.sysfs.read(cpus + "online") == "0-5"
    for cpu in (4, 5):
        bench.sysfs.write(f"{cpus}cpu{cpu}/online", "0")
    assert bench.sysfs.read(cpus + "online") == "0-3"
    assert bench.sysfs.read(POLICY.format(4) + "/affected_cpus") == ""
    assert refused(bench, POLICY.format(4) + "/scaling_max_freq", "729600") == errno.EINVAL
    assert refused(bench, POLICY.format(0) + "/scaling_max_freq", "729600") is None
    assert not bench.sysfs.exists(cpus + "cpu0/online")
    assert bench.board.clocks().cpu_cores == 4


def test_the_memory_clock_follows_the_load_until_it_is_locked() -> None:
    bench = Bench()
    emc = "/sys/kernel/debug/bpmp/debug/clk/emc/"
    assert bench.sysfs.read(emc + "rate") == "204000000"
    bench.train()
    assert bench.sysfs.read(emc + "rate") == "2133000000"
    bench.sysfs.write(emc + "rate", "665600000")  # not locked: the firmware's affair
    assert bench.sysfs.read(emc + "rate") == "2133000000"
    bench.sysfs.write(emc + "mrq_rate_locked", "1")
    assert bench.sysfs.read(emc + "rate") == "665600000"
    assert bench.board.clocks().emc_freq_mhz == 665.6
    bench.sysfs.write(emc + "rate", "700000000")
    assert bench.sysfs.read(emc + "rate") == "665600000"


# ---- power


def test_power_follows_the_load_with_lag() -> None:
    bench = Bench()
    bench.later(10)
    idle_w = bench.watts()
    assert 3.0 < idle_w < 4.0
    bench.board.write("/.fake-board-work", _request(16))
    bench.later(5)  # nobody has looked yet: the first step is still to come
    before_w = bench.watts()
    assert idle_w < before_w < 8
    bench.board.report()
    full_w = bench.board.rails().total_w
    bench.later(0.45)
    share = (bench.watts() - before_w) / (full_w - before_w)
    assert share == pytest.approx(0.632, abs=0.12)  # one time constant; the ripple is 4 %
    shown = []
    for _ in range(400):
        bench.later(0.1)
        bench.board.report()
        shown.append(bench.watts())
    settled = shown[30:]
    assert sum(settled) / len(settled) == pytest.approx(full_w, rel=0.02)
    spread = (sum((w - full_w) ** 2 for w in settled) / len(settled)) ** 0.5 / full_w
    assert 0.02 < spread < 0.06


def test_readings_have_steps_and_shunt_voltages_are_no_rails() -> None:
    bench = Bench()
    bench.train(settle_s=5)
    currents = []
    for _ in range(30):
        bench.later(0.1)
        currents.append(int(bench.sysfs.read(POWER + "curr1_input")))
        assert int(bench.sysfs.read(POWER + "in4_input")) == currents[-1] * 5
    assert all(current % 4 == 0 for current in currents)
    assert len(set(currents)) > 5


def test_jetpack_4_shows_watts_by_iio() -> None:
    bench = Bench("jetson-tx2")
    base = "/sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1/"
    assert bench.sysfs.read(base + "rail_name_0") == "VDD_IN"
    assert 1200 < int(bench.sysfs.read(base + "in_power0_input")) < 4000
    assert not bench.sysfs.list("/sys/bus/i2c/drivers/ina3221")


def test_a_trainer_that_is_silent_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.train(settle_s=5)
    assert bench.board.phase == TRAIN
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 2)
    bench.sysfs.read("/proc/uptime")
    assert bench.board.phase == IDLE
    bench.board.report()
    assert bench.board.phase == TRAIN


# ---- who may write


@pytest.mark.parametrize(("fault", "number"), [("no-permission@0", errno.EACCES), ("read-only@0", errno.EROFS)])
def test_who_may_not_write(fault: str, number: int) -> None:
    bench = Bench(faults=[fault])
    for name in (GPU + "/min_freq", POLICY.format(0) + "/scaling_min_freq"):
        assert bench.sysfs.refusal(name) == number
        assert refused(bench, name, "408000000") == number
    assert bench.gpu("min") == 306000000
    assert bench.sysfs.read_or("/sys/kernel/debug/bpmp/debug/clk/emc/rate") is None
    assert bench.sysfs.exists("/sys/kernel/debug/bpmp/debug/clk/emc/rate") == (number == errno.EACCES)
    if number == errno.EROFS:  # the container's own files can be written
        bench.sysfs.replace("/run/tuner/journal.json", "{}")
        assert bench.sysfs.read("/run/tuner/journal.json") == "{}"
    else:
        with pytest.raises(PermissionError):
            bench.sysfs.replace("/run/tuner/journal.json", "{}")


def test_files_of_programs() -> None:
    bench = Bench()
    assert bench.sysfs.refusal("/proc/uptime") == errno.EACCES
    assert bench.sysfs.refusal("/sys/nothing") == errno.ENOENT
    assert refused(bench, "/run/new", "x") == errno.ENOENT
    with pytest.raises(PermissionError):
        bench.sysfs.replace("/sys/new", "x")
    bench.sysfs.replace("/run/tuner/a", "one")
    bench.sysfs.write("/run/tuner/a", "two")
    assert bench.sysfs.list("/run/tuner") == ["a"]
    assert bench.sysfs.read("/run/tuner/a") == "two"
    bench.sysfs.remove("/run/tuner/a")
    bench.sysfs.remove("/run/tuner/a")
    assert bench.sysfs.list("/run/tuner") == []
    assert not bench.sysfs.real
    assert bench.sysfs.canonical(GPU + "/device/devfreq_dev") == bench.sysfs.canonical(GPU)


# ---- faults


@pytest.mark.parametrize(
    ("name", "file", "what"),
    [
        ("meter-dead", "curr1_input", "0"),
        ("meter-empty", "curr1_input", ""),
        ("meter-garbage", "curr1_input", "4.9e1 W?"),
        ("meter-missing", "curr1_input", errno.ENOENT),
        ("meter-unreadable", "curr1_input", errno.EIO),
        ("meter-no-label", "in1_label", errno.ENOENT),
    ],
)
def test_faults_of_the_meter(name: str, file: str, what: str | int) -> None:
    bench = Bench(faults=[f"{name}@1:2"])
    bench.train()
    assert bench.sysfs.read(POWER + file) not in ("", "0")
    bench.later(1)
    if isinstance(what, str):
        assert bench.sysfs.read(POWER + file) == what
    else:
        with pytest.raises(OSError, match=r"\w") as caught:
            bench.sysfs.read(POWER + file)
        assert caught.value.errno == what
        assert bench.sysfs.exists(POWER + file) == (what != errno.ENOENT)
    bench.train()  # the next burst
    assert bench.sysfs.read(POWER + file) not in ("", "0")


def test_clocks_are_reset_in_the_middle() -> None:
    bench = Bench(faults=["clocks-reset@1:5"])
    bench.sysfs.write(GPU + "/max_freq", "408000000")
    bench.sysfs.write(GPU + "/min_freq", "408000000")
    bench.train(settle_s=3.9)
    assert (bench.gpu("min"), bench.gpu("max")) == (408000000, 408000000)
    bench.later(0.2)
    assert (bench.gpu("min"), bench.gpu("max")) == (306000000, 624750000)


def test_throttling_shows_and_really_slows() -> None:
    bench = Bench(faults=["throttle-alert@1:5", "over-current@1:5"])
    bench.train(settle_s=2)
    alerts, counters = alert_files(bench.sysfs), over_current_files(bench.sysfs)
    assert {bench.sysfs.read(name) for name in alerts} == {"0"}
    assert bench.board.clocks().gpu_freq_mhz == 624.75
    bench.later(3)
    assert sorted(bench.sysfs.read(name) for name in alerts)[-1] == "1"
    assert [bench.sysfs.read(name) for name, what in counters.items() if "OC3" in what] == ["7"]
    assert bench.board.clocks().gpu_freq_mhz == 306
    bench.train()
    assert {bench.sysfs.read(name) for name in alerts} == {"0"}
    assert bench.board.clocks().gpu_freq_mhz == 624.75


@pytest.mark.parametrize(("name", "mhz"), [("clock-slow", 0.9 * 624.75), ("clock-stuck", 306.0)])
def test_a_clock_that_does_not_do_what_it_is_told(name: str, mhz: float) -> None:
    bench = Bench(faults=[f"{name}@1:2"])
    bench.train(settle_s=2)
    assert (bench.gpu("min"), bench.gpu("max")) == (306000000, 624750000)
    assert bench.board.clocks().gpu_freq_mhz == pytest.approx(mhz)
    assert bench.gpu("cur") == pytest.approx(mhz * 1e6, rel=0.013)


def test_the_board_becomes_too_hot() -> None:
    bench = Bench(faults=["over-temperature@1:0"])
    bench.train()
    assert max(temperatures(bench.sysfs).values()) < 60
    bench.later(5)
    warmer = max(temperatures(bench.sysfs).values())
    bench.later(5)
    assert max(temperatures(bench.sysfs).values()) > warmer + 25
    bench.sysfs.read("/proc/uptime")
    assert "1" in {bench.sysfs.read(name) for name in alert_files(bench.sysfs)}


def test_swap_grows() -> None:
    bench = Bench(faults=["swap@1:1"])
    bench.train()

    def numbers() -> tuple[int, int]:
        found = {line.split()[0]: int(line.split()[1]) for line in bench.sysfs.read("/proc/meminfo").splitlines()}
        pages = int(bench.sysfs.read("/proc/vmstat").split()[1])
        return found["SwapTotal:"] - found["SwapFree:"], pages

    bench.later(2)
    used_kib, pages = numbers()
    bench.later(2)
    later_kib, later_pages = numbers()
    assert later_kib - used_kib == pytest.approx(200 * 1024, rel=0.02)
    assert later_pages > pages > 0
    bench.train()
    assert numbers()[0] == 0
    assert numbers()[1] >= later_pages  # counts since boot


def test_a_batch_that_does_not_fit() -> None:
    bench = Bench(seed=1)
    fates = set()
    for _ in range(3):
        bench.train(batch=4096)
        fates.add(bench.board.work.fate)
    assert fates == {"killed", "assert", "nvmap"}
    before = bench.sysfs.read("/proc/meminfo")
    bench.train(batch=64)
    assert bench.board.work.fate is None
    assert bench.sysfs.read("/proc/meminfo") != before


def test_a_reboot() -> None:
    bench = Bench(faults=["lost@1:5"])
    reboots: list[int] = []
    bench.board.on_reboot.append(lambda: reboots.append(bench.board.boots))
    boot_id = bench.sysfs.read("/proc/sys/kernel/random/boot_id")
    assert float(bench.sysfs.read("/proc/uptime").split()[0]) == pytest.approx(3600)
    bench.sysfs.write(GPU + "/max_freq", "408000000")
    bench.sysfs.write(GPU + "/../../railgate_enable", "0")
    bench.sysfs.write("/sys/devices/system/cpu/cpu5/online", "0")
    bench.sysfs.replace("/run/tuner/journal.json", "{1}")
    bench.train(settle_s=4.5)
    assert bench.gpu("max") == 624750000
    assert bench.sysfs.read(GPU + "/../../railgate_enable") == "1"
    assert bench.sysfs.read("/sys/devices/system/cpu/online") == "0-5"
    assert bench.sysfs.read("/proc/sys/kernel/random/boot_id") != boot_id
    assert float(bench.sysfs.read("/proc/uptime").split()[0]) < 10
    assert not bench.sysfs.exists("/run/tuner/journal.json")
    assert reboots == [1]
    assert bench.board.lost_journal == "{1}"
    assert bench.board.work.fate == "killed"


def test_another_power_mode() -> None:
    bench = Bench(faults=["mode-changed@1:2"])
    assert bench.sysfs.read("/var/lib/nvpmodel/status") == "pmode:0000"
    bench.train(settle_s=2)
    assert bench.sysfs.read("/var/lib/nvpmodel/status") == "pmode:0001"
    assert bench.gpu("max") == 408000000
    assert bench.sysfs.read("/sys/devices/system/cpu/online") == "0-3"


def test_faults_are_told_from_words_that_are_none() -> None:
    assert Fault.parse("swap") == Fault("swap", 1, 6.0, 1)
    assert Fault.parse("swap@3+2:1.5") == Fault("swap", 3, 1.5, 2)
    wrong = "nothing swap@x swap@1:y swap@ swap@-1 swap@1:-6 swap@1:nan swap@1:inf swap@1+0 swap@1+ swap@0:3 swap@1_0"
    for text in wrong.split():
        with pytest.raises(InputError):
            Fault.parse(text)
    with pytest.raises(InputError, match="happens in a burst"):
        FakeBoard(faults=["lost@0"])
    assert all(kind.what and (kind.statuses or kind.may_pass) for kind in FAULTS.values())


@pytest.mark.parametrize("options", [{"model": "abacus"}, {"kernel": "2.6"}, {"preset": "99W"}, {"faults": ["x"]}])
def test_what_there_is_not(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        FakeBoard(**options)  # type: ignore[arg-type]


# ---- every model


@pytest.mark.parametrize("model", LAYOUTS)
def test_every_model_is_probed_as_what_it_is(model: str) -> None:
    bench = Bench(model)
    board = bench.board.catalog
    report = examine(bench.sysfs, bench.time)
    assert report["module"] == model
    assert report["source"] == "emulated"
    values = {knob["name"]: knob["values"] for knob in report["knobs"]}
    assert values[board.speed_knob] == list(board.steps(board.speed_knob))
    assert values["cpu_freq_mhz"] == list(board.cpu_freq_mhz)
    assert max(values["cpu_cores"]) == board.cpu_cores[-1]
    assert all(knob["writable"] for knob in report["knobs"])
    if model.startswith("jetson"):
        total_w = sum(meter["watts"] for meter in report["meters"] if meter["is_total"])
        total_w = total_w or sum(m["watts"] for m in report["meters"] if m["rail"] != "VDDQ_VDD2_1V8AO")
        assert 1.0 < total_w < 12.0
        assert report["held_fixed"]["power_mode"] == board.presets[0].name
    mends = " ".join(problem["mend"] for problem in report["problems"])
    assert not report["problems"] or "nvpmodel" in mends or "meter" in mends or "board itself" in mends


@pytest.mark.parametrize("model", LAYOUTS)
def test_plain_files_of_it_say_the_same(model: str, tmp_path: Path) -> None:
    bench = Bench(model)
    plant(bench.board, tmp_path)
    planted = SysFs(str(tmp_path))
    here, there = examine(bench.sysfs, bench.time), examine(planted, Clock())
    for key in ("model", "module", "jetpack", "source", "held_fixed"):
        assert there[key] == here[key]
    assert [knob["values"] for knob in there["knobs"]] == [knob["values"] for knob in here["knobs"]]
    assert [m["rail"] for m in there["meters"]] == [m["rail"] for m in here["meters"]]
    assert not planted.exists("/.fake-board")


def test_a_workload_that_is_none_is_said_to_the_trainer() -> None:
    answer = load({"spec": "absent", "args": {}, "data": None})
    assert answer["error"]["kind"] == "input"
    assert "absent" in answer["error"]["message"]
