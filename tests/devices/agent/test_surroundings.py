"""Power mode, other writers, temperatures and memory of a board, by its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from devices.agent.identity import identify
from devices.agent.power_mode import parse_query, read_modes, run_command
from devices.agent.surroundings import held_fixed, memory, other_writers, problems
from devices.agent.sysfs import SysFs
from devices.agent.thermal import hottest, limits, temperatures
from tests.devices.agent.trees import NAMES, plant, put

SUPER = "orin-nano-super-jp6"
GPU = "sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu"
POLICIES = "sys/devices/system/cpu/cpufreq/policy"
STATUS = "var/lib/nvpmodel/status"
CONF = """\
# comment < POWER_MODEL ID=9 NAME=NONE >
< PARAM TYPE=CLOCK NAME=GPU >
FREQ_TABLE /sys/devices/17000000.gpu/devfreq_dev/available_frequencies
MAX_FREQ /sys/devices/17000000.gpu/devfreq_dev/max_freq
< POWER_MODEL ID=0 NAME=15W >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_5 1
TPC_POWER_GATING TPC_PG_MASK 240
CPU_A78_0 MAX_FREQ 1497600
GPU MAX_FREQ 612000000   # Hz
EMC MAX_FREQ 2133000000
<POWER_MODEL ID=1 NAME=25W>
TPC_POWER_GATING TPC_PG_MASK 0xf0
CPU_A78_0 MAX_FREQ 1344000
GPU MAX_FREQ 918000000
GPU MIN_FREQ junk
< POWER_MODEL ID=2 NAME=MAXN_SUPER >
CPU_A78_0 MAX_FREQ -1
GPU MAX_FREQ -1
GPU
< POWER_MODEL ID=x NAME=BROKEN >
GPU MAX_FREQ 1
< PM_CONFIG DEFAULT=1 >
"""


class RealSysFs(SysFs):
    """A tree that passes for the machine's own root."""

    @property
    def real(self) -> bool:
        return True


class Commands:
    """Answers commands, and knows what was asked."""

    def __init__(self, **answers: str | None) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> str | None:
        self.asked.append(list(command))
        return self.answers.get(command[0])


def wheres(sysfs: SysFs) -> str:
    """All problems, as one text."""
    return "\n".join(f"{problem.what} -> {problem.mend}" for problem in problems(sysfs, identify(sysfs)))


# ---- power modes


def test_the_modes_of_a_conf_file_through_its_link(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    put(tmp_path, "etc/nvpmodel/nvpmodel_p3767_0003_super.conf", CONF)
    (tmp_path / "etc/nvpmodel.conf").symlink_to("/etc/nvpmodel/nvpmodel_p3767_0003_super.conf")
    found = read_modes(sysfs)
    assert {number: mode.name for number, mode in found.modes.items()} == {0: "15W", 1: "25W", 2: "MAXN_SUPER"}
    assert (found.default, found.number, found.name, found.reason) == (1, 1, "25W", None)
    assert found.words == "25W (mode 1)"
    assert [mode.gpu_max_mhz for mode in found.modes.values()] == [612, 918, None]
    assert [mode.tpc_mask for mode in found.modes.values()] == [240, 240, None]
    assert [mode.cpu_max_mhz for mode in found.modes.values()] == [{"CPU_A78_0": 1497.6}, {"CPU_A78_0": 1344}, {}]
    assert found.modes[0].limits["CPU_ONLINE"] == {"CORE_0": 1, "CORE_5": 1}
    widest = found.widest()
    assert widest is not None
    assert widest.name == "MAXN_SUPER"


@pytest.mark.parametrize(
    ("conf", "status", "number", "reason"),
    [
        (None, "pmode:0001", 1, "/etc/nvpmodel.conf cannot be read: No such file or directory"),
        ("", "pmode:0001", 1, "/etc/nvpmodel.conf is empty"),
        ("\x01\x02 < > <<", "pmode:0001", 1, "/etc/nvpmodel.conf names no power mode"),
        (CONF, "pmode:0007", 7, "/etc/nvpmodel.conf has no mode 7, which /var/lib/nvpmodel/status names"),
        (CONF, None, None, "/var/lib/nvpmodel/status cannot be read: No such file or directory"),
        (CONF, "", None, "/var/lib/nvpmodel/status is empty"),
        (CONF, "mode: fast", None, "/var/lib/nvpmodel/status cannot be understood: 'mode: fast'"),
        (CONF, "pmode:" + "9" * 400, None, None),
    ],
)
def test_a_mode_that_is_not_known_has_a_reason(
    conf: str | None, status: str | None, number: int | None, reason: str | None, tmp_path: Path
) -> None:
    sysfs = plant(SUPER, tmp_path)
    (tmp_path / STATUS).unlink()
    if conf is not None:
        put(tmp_path, "etc/nvpmodel.conf", conf)
    if status is not None:
        put(tmp_path, STATUS, status)
    found = read_modes(sysfs)
    assert (found.number, found.name) == (number, None)
    assert found.reason == reason or (reason is None and "cannot be understood" in str(found.reason))
    assert "the power mode is" in wheres(sysfs)
    assert "sudo nvpmodel -q" in wheres(sysfs)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NV Power Mode: 15W\n0\n", ("15W", 0)),
        ("NVPM WARN: fan mode is not set!\nNV Power Mode: MAXN_SUPER\n2\n", ("MAXN_SUPER", 2)),
        (
            "NVPM ERROR: Error opening /sys/kernel/nvpmodel_emc_cap/emc_iso_cap: 13\nNV Power Mode: MODE_15W_6CORE\n"
            "NVPM ERROR: again: 13\n2\n",
            ("MODE_15W_6CORE", 2),
        ),
        ("NV Power Mode: 15W", ("15W", None)),
        ("NVPM ERROR: no\n3", None),
        ("NV Power Mode:\n0", None),
        ("", None),
    ],
)
def test_what_nvpmodel_prints(text: str, found: tuple[str, int | None] | None) -> None:
    assert parse_query(text) == found


def test_nvpmodel_is_asked_only_on_a_real_root_and_for_what_the_files_do_not_tell(tmp_path: Path) -> None:
    commands = Commands(nvpmodel="NVPM WARN: x\nNV Power Mode: 25W\n1\n")
    copy = plant(SUPER, tmp_path)
    assert read_modes(copy, commands).name is None
    assert commands.asked == []
    found = read_modes(RealSysFs(str(tmp_path)), commands)
    assert (found.number, found.name, found.reason) == (1, "25W", None)
    assert commands.asked == [["nvpmodel", "-q"]]
    put(tmp_path, "etc/nvpmodel.conf", CONF)
    assert read_modes(RealSysFs(str(tmp_path)), commands).name == "25W"
    assert len(commands.asked) == 1
    assert "cannot be read" in str(read_modes(RealSysFs("/nowhere"), Commands(nvpmodel=None)).reason)


def test_a_command_that_is_not_there_says_nothing() -> None:
    assert run_command(["/no/such/command"]) is None
    assert run_command(["sh", "-c", "echo said; echo wrong >&2; exit 3"]) == "said\nwrong\n"


# ---- what is held fixed


def test_what_is_held_fixed(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    put(tmp_path, "etc/nvpmodel.conf", CONF)
    put(tmp_path, "sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "1")
    put(tmp_path, "sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0")
    (tmp_path / "etc/systemd/system/multi-user.target.wants").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/multi-user.target.wants/nvpmodel.service").symlink_to("/lib/nvpmodel.service")
    expected = {
        "l4t": "36.4.7",
        "jetpack": "6.2.1",
        "power_mode": "25W",
        "power_mode_id": 1,
        "emc_cap_mhz": 3199,
        "other_writers": ["nvpmodel.service"],
        "gpu_governor": "nvhost_podgov",
        "gpu_railgate": "on",
        "tpc_mask": 240,
        "cpus_online": "0-5",
        "cpu_freq_mhz": {"policy0": [729.6, 1344], "policy4": [729.6, 1344]},
        "cpu_governor": "schedutil",
        "idle_states": "on",
    }
    assert held_fixed(sysfs, identify(sysfs)) == expected
    put(tmp_path, "sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "1")
    put(tmp_path, "sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1")
    changed = {"emc_freq_mhz": 3199, "idle_states": "off"}
    assert held_fixed(sysfs, identify(sysfs)) == {**expected, **changed}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_unknown_is_held_fixed(name: str, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    found = held_fixed(sysfs, identify(sysfs))
    assert not [key for key, value in found.items() if value in (None, "", [], {})]
    assert ("power_mode_id" in found) == (name == SUPER)


# ---- who else writes


def test_programs_that_run(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    assert other_writers(sysfs) == ([], [], False)
    put(tmp_path, "proc/12/comm", "python3")
    put(tmp_path, "proc/12/cmdline", "/usr/bin/python3\0/usr/local/bin/jtop\0--force\0")
    put(tmp_path, "proc/13/comm", "nvpower.sh")
    put(tmp_path, "proc/14/cmdline", "/usr/bin/vi\0/etc/my\0jtop\0")
    put(tmp_path, "proc/15/cmdline", "/usr/bin/python3\0/usr/share/nvpmodel_indicator/nvpmodel_indicator.py\0")
    assert other_writers(sysfs).running == ["jtop", "nvpower"]
    assert "sudo systemctl stop jtop.service" in wheres(sysfs)
    assert "nvpower runs now" in wheres(sysfs)


def test_clocks_that_jetson_clocks_has_pinned(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    put(tmp_path, f"{GPU}/min_freq", "918000000")
    for policy in (0, 4):
        assert not other_writers(sysfs).pinned
        put(tmp_path, f"{POLICIES}{policy}/scaling_min_freq", "1344000")
    assert other_writers(sysfs).pinned
    assert "sudo reboot" in wheres(sysfs)  # nothing to restore from
    put(tmp_path, "root/l4t_dfs.conf", "/sys/x:1")
    assert "sudo jetson_clocks --restore" in wheres(sysfs)
    (tmp_path / f"{GPU}/min_freq").unlink()
    (tmp_path / f"{GPU}/max_freq").unlink()
    assert not other_writers(sysfs).pinned


@pytest.mark.parametrize("name", NAMES)
def test_a_board_at_rest_has_no_problem_but_an_unknown_mode(name: str, tmp_path: Path) -> None:
    sysfs = plant(name, tmp_path)
    found = problems(sysfs, identify(sysfs))
    jetson = identify(sysfs).family == "jetson"
    assert [problem.what[:14] for problem in found] == (["the power mode"] if jetson else [])


def test_a_super_mode_on_stock_firmware(tmp_path: Path) -> None:
    sysfs = plant("orin-nano-jp5", tmp_path)
    put(tmp_path, STATUS, "pmode:0002")
    put(tmp_path, "etc/nvpmodel.conf", CONF.replace("MAXN_SUPER", "MAXN"))
    assert wheres(sysfs) == ""
    put(tmp_path, "etc/nvpmodel.conf", CONF)
    assert wheres(sysfs).startswith("there is a power mode MAXN_SUPER, but the GPU's table ends at 624.75 MHz")
    assert "jetson-orin-nano-devkit-super" in wheres(sysfs)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("throttled=0x0\n", ""),
        ("throttled=0x50005\n", "of now: under-voltage, throttled"),
        ("throttled=0x20000\n", "of the time since boot: the arm frequency is capped"),
        ("throttled=0xzz\n", ""),
        ("VCHI initialization failed\n", ""),
        (None, ""),
    ],
)
def test_what_a_raspberry_pi_says(answer: str | None, words: str, tmp_path: Path) -> None:
    commands = Commands(vcgencmd=answer)
    copy = plant("rpi5", tmp_path)
    assert problems(copy, identify(copy), commands) == []
    assert commands.asked == []
    real = RealSysFs(str(tmp_path))
    found = problems(real, identify(real), commands)
    assert commands.asked == [["vcgencmd", "get_throttled"]]
    assert (words in found[0].what) if words else found == []


# ---- temperatures and memory


def test_temperatures_by_type(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    zone = "sys/class/thermal/thermal_zone"
    assert temperatures(sysfs) == {"cpu-thermal": 47.468, "gpu-thermal": 45.906, "tj-thermal": 47.468}
    for number, (name, value) in enumerate(
        [("PMIC-Die", "100000"), ("cv0-thermal", ""), ("off-thermal", "-256000"), ("bad", "warm"), ("", "99000")], 20
    ):
        put(tmp_path, f"{zone}{number}/type", name)
        put(tmp_path, f"{zone}{number}/temp", value)
    (tmp_path / f"{zone}1/temp").unlink()
    assert temperatures(sysfs) == {"cpu-thermal": 47.468, "tj-thermal": 47.468}
    for number, (kind, value) in enumerate(
        [("passive", "60000"), ("hot", "103000"), ("critical", "104500"), ("critical", "0"), ("hot", "x")]
    ):
        put(tmp_path, f"{zone}8/trip_point_{number}_type", kind)
        put(tmp_path, f"{zone}8/trip_point_{number}_temp", value)
    assert limits(sysfs)["tj-thermal"] == 98
    assert limits(sysfs)["cpu-thermal"] == 95
    assert wheres(sysfs).count("burst ends") == 0
    put(tmp_path, f"{zone}8/temp", "93500")
    hot = hottest(sysfs)
    assert hot is not None
    assert (hot.name, hot.temperature_c, hot.limit_c) == ("tj-thermal", 93.5, 98)
    assert "tj-thermal is at 93.5 C; a burst ends at 98 C -> let the board cool down" in wheres(sysfs)


class UnpoweredSysFs(SysFs):
    def read(self, name: str) -> str:
        if name.endswith("thermal_zone1/temp"):
            raise BlockingIOError(11, "Resource temporarily unavailable", name)
        return super().read(name)


def test_an_unpowered_zone_has_no_value(tmp_path: Path) -> None:
    plant(SUPER, tmp_path)
    assert sorted(temperatures(UnpoweredSysFs(str(tmp_path)))) == ["cpu-thermal", "tj-thermal"]


def test_zones_without_class_links_and_a_constant_pmic(tmp_path: Path) -> None:
    assert temperatures(plant("nano-jp4", tmp_path)) == {"CPU-therm": 34.5}
    assert hottest(SysFs(str(tmp_path / "nothing"))) is None


def test_a_board_that_slows_itself_down(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    put(tmp_path, "sys/class/thermal/cooling_device1/cur_state", "1")
    assert "gpu-throttle-alert" in wheres(sysfs)


def test_memory_and_swap(tmp_path: Path) -> None:
    sysfs = plant(SUPER, tmp_path)
    assert memory(sysfs) == {
        "total_mib": None,
        "available_mib": None,
        "swap_mib": None,
        "swap_used_mib": None,
        "zram_devices": 0,
    }
    put(tmp_path, "proc/swaps", "Filename Type Size Used\n/dev/zram0 partition 650000 0\n/dev/sda2 partition 1 0")
    text = "MemTotal: 8000000 kB\nMemAvailable: {} kB\nSwapTotal: 2000000 kB\nSwapFree: {} kB"
    put(tmp_path, "proc/meminfo", text.format(5_000_000, 1_990_000))
    assert memory(sysfs) == {
        "total_mib": 7812,
        "available_mib": 4882,
        "swap_mib": 1953,
        "swap_used_mib": 9,
        "zram_devices": 1,
    }
    assert "memory" not in wheres(sysfs)
    put(tmp_path, "proc/meminfo", text.format(500_000, 1_500_000))
    assert "only 488 of 7812 MiB of memory are available -> end programs" in wheres(sysfs)
    assert "488 MiB of swap are in use" in wheres(sysfs)
