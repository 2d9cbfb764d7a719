"""The files of a Jetson: GPU, memory clock, over-current counters, power modes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from devices.fake._parts import CPUS, choice, drawing, governor, keep, limits
from devices.fake.work import IDLE

if TYPE_CHECKING:
    from devices.fake.board import FakeBoard

_EMC = "/sys/kernel/debug/bpmp/debug/clk/emc/"
_OVERRIDE = "/sys/kernel/debug/clk/override.emc/"
_BANDWIDTH = "/sys/kernel/debug/tegra_bwmgr/emc_"


def build(board: FakeBoard) -> None:
    """Make them, and the neighbours that are none of these: a video engine with a clock, the fan."""
    board.files.add("/etc/nv_tegra_release", board.layout.release(board.kernel))
    _gpu(board)
    _memory_clock(board)
    _over_current(board)
    _power_modes(board)
    vic = f"{board.layout.devices(board.kernel)}/15340000.vic"
    board.files.add(f"{vic}/of_node/name", "vic\0")
    board.files.add(f"{vic}/devfreq/15340000.vic/available_frequencies", "115200000 729600000")
    board.files.link(f"{vic}/devfreq/15340000.vic/device", vic)
    board.files.link("/sys/class/devfreq/15340000.vic", f"{vic}/devfreq/15340000.vic")
    board.files.add("/sys/class/hwmon/hwmon0/name", "pwmfan")
    board.files.add("/sys/class/hwmon/hwmon0/pwm1", "60")


def _gpu(board: FakeBoard) -> None:
    files, clock = board.files, board.gpu
    assert clock is not None
    name = board.layout.gpu_device(board.kernel)
    device = f"{board.layout.devices(board.kernel)}/{name}"
    folder = f"{device}/devfreq/{name}"
    noise = random.Random(f"clock {board.seed}")

    def now() -> str:
        """Under load 0.2 to 1.2 % below the step; without power the value of a sleeping clock."""
        if board.railgated:
            return str(clock.steps[0])
        hertz = clock.step(board.loaded) * clock.factor
        if board.loaded:
            hertz *= 1 - noise.uniform(0.002, 0.012)
        return str(int(hertz) // 1000 * 1000)

    files.add(f"{folder}/name", name)
    last_blank = " " if board.kernel == "4.9" else ""
    files.add(f"{folder}/available_frequencies", " ".join(str(step) for step in clock.steps) + last_blank)
    limits(board, folder, "", clock, lambda: True)
    files.add(f"{folder}/cur_freq", now)
    files.add(f"{folder}/target_freq", lambda: str(clock.step(board.loaded)))
    files.add(f"{folder}/polling_interval", "25")
    governor(board, folder, "", "gpu")
    files.add(f"{device}/of_node/name", name.split(".")[1] + "\0")
    files.add(f"{device}/load", lambda: str(round(board.gpu_load() * 1000)))
    files.add(f"{device}/railgate_enable", lambda: board.railgate, choice(board, "railgate", ("0", "1")))
    if board.kernel != "4.9":
        files.add(f"{device}/power/control", lambda: board.control, choice(board, "control", ("on", "auto")))
        files.add(f"{device}/power/runtime_status", lambda: "suspended" if board.railgated else "active")
    mask = board.catalog.held_fixed.get("tpc_mask")
    if mask is not None:
        files.add(f"{device}/tpc_pg_mask", str(mask))
    files.link(f"{folder}/device", device)
    files.link(f"{device}/devfreq_dev", folder)
    files.link(f"/sys/class/devfreq/{name}", folder)
    files.link("/sys/devices/gpu.0", device)
    if device != f"/sys/devices/{name}":
        files.link(f"/sys/devices/{name}", device)


def _memory_clock(board: FakeBoard) -> None:
    files, clock = board.files, board.emc
    cap = "/sys/kernel/nvpmodel_clk_cap/emc" if board.kernel == "5.15" else "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
    files.add(cap, lambda: str(clock.cap))

    def rate() -> str:
        return str(clock.rate(board.phase != IDLE))

    def locked() -> str:
        return str(int(clock.locked))

    lock, ask = drawing(board, clock.write_lock), drawing(board, clock.write_rate)
    if "tegra210" in board.layout.compatible[-1]:
        files.add(_OVERRIDE + "clk_state", locked, lock)
        files.add(_OVERRIDE + "clk_update_rate", lambda: str(clock.asked), ask)
        files.add(_OVERRIDE + "clk_rate", rate)
        ends = _BANDWIDTH
    else:
        files.add(_EMC + "mrq_rate_locked", locked, lock)
        files.add(_EMC + "rate", rate, ask)
        keep(board, _EMC + "state", "1")
        files.add(_EMC + "possible_rates", " ".join(str(step) for step in clock.steps))
        ends = _EMC
    files.add(ends + "min_rate", str(clock.steps[0]))
    files.add(ends + "max_rate", str(clock.steps[-1]))


def _over_current(board: FakeBoard) -> None:
    if board.kernel == "4.9":
        return
    folder = "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon3"
    board.files.add(f"{folder}/name", "soctherm_oc")
    for number in board.over_current:
        board.files.add(f"{folder}/oc{number}_event_cnt", _count(board, number))
        board.files.add(f"{folder}/oc{number}_throt_en", "1")
    board.files.link("/sys/class/hwmon/hwmon3", folder)


def _count(board: FakeBoard, number: int) -> Callable[[], str]:
    return lambda: str(board.over_current[number])


def _power_modes(board: FakeBoard) -> None:
    lines = ["< PARAM TYPE=FILE NAME=CPU_ONLINE >"]
    cpus = board.layout.cpus
    lines += [f"CORE_{cpu} {CPUS}cpu{cpu}/online" for cpu in sorted(cpus)[1:]]
    for number, mode in enumerate(board.modes):
        lines.append(f"< POWER_MODEL ID={number} NAME={mode.name} >")
        lines += [f"CPU_ONLINE CORE_{cpu} {int(cpu in cpus[: mode.cpu_cores])}" for cpu in sorted(cpus)]
        if mode.cpu_freq_mhz is not None:
            lines.append(f"CPU_0 MAX_FREQ {round(mode.cpu_freq_mhz * 1e3)}")
        lines.append(f"GPU MAX_FREQ {-1 if mode.gpu_max_mhz is None else round(mode.gpu_max_mhz * 1e6)}")
        cap = round(mode.emc_freq_mhz * 1e6)
        lines.append(f"EMC MAX_FREQ {cap if cap < board.emc.steps[-1] else 0}")
    lines.append("< PM_CONFIG DEFAULT=0 >")
    board.files.add("/etc/nvpmodel/nvpmodel.conf", "\n".join(lines))
    board.files.link("/etc/nvpmodel.conf", "/etc/nvpmodel/nvpmodel.conf")
    board.files.add("/var/lib/nvpmodel/status", lambda: f"pmode:{board.mode:04d}")
