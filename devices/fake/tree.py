"""The files of a fake board, as its kernel shows them: names and units stand in the reference of the hardware."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from devices.agent.sysfs import MARKER
from devices.errors import InputError
from devices.fake import _jetson, _meters
from devices.fake._parts import CPUS, drawing, governor, keep, limits
from devices.fake.clocks import LimitedClock
from devices.fake.files import Write, fail
from devices.fake.folder import empty_folder
from devices.fake.work import IDLE, WORK

if TYPE_CHECKING:
    from devices.fake.board import FakeBoard

_OSRELEASE = {"4.9": "4.9.253-tegra", "5.10": "5.10.104-tegra", "5.15": "5.15.148-tegra"}
_PAGES_PER_MIB = 256


def build(board: FakeBoard) -> None:
    """Make all files of a board."""
    files = board.files
    files.add(WORK, board.report, lambda text: None)
    for folder in ("/run", "/tmp", "/root", "/var/lib", "/etc/systemd/system"):
        files.folder(folder)
    for name, text in (("model", board.layout.model), ("compatible", "\0".join(board.layout.compatible))):
        files.add(f"/sys/firmware/devicetree/base/{name}", text + "\0")
    files.link("/proc/device-tree", "/sys/firmware/devicetree/base")
    _machine(board)
    _cpus(board)
    _thermal(board)
    if board.layout.is_jetson:
        _jetson.build(board)
        _meters.build(board)


def plant(board: FakeBoard, folder: str | Path) -> None:
    """Plain files and links with what a board shows now: they neither clamp nor follow a load, and no trainer runs
    there. Files that have no value now are left out.

    Raises:
        InputError: the folder is not empty, or cannot be written; it is left empty then.
    """
    with board.lock:
        texts: dict[str, str] = {}
        for name in board.files.walk():
            if not name.startswith(MARKER):
                try:
                    texts[name] = board.files.read(name)
                except OSError:
                    continue
    root = empty_folder(folder)
    try:
        for name, text in texts.items():
            file = root / name.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for name, target in board.files.links.items():
            link = root / name.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        (root / "run").mkdir(exist_ok=True)
    except BaseException as error:
        for child in root.iterdir():
            shutil.rmtree(child)
        if isinstance(error, OSError):
            raise InputError(f"{root} cannot be written: {error.strerror or error}", hint="name another DIR") from error
        raise


def _machine(board: FakeBoard) -> None:
    files, memory = board.files, board.catalog.memory
    files.add("/proc/sys/kernel/random/boot_id", board.boot_id)
    files.add("/proc/sys/kernel/osrelease", _OSRELEASE.get(board.kernel, board.kernel + ".0"))
    files.add("/proc/uptime", lambda: "{0:.2f} {0:.2f}".format(board.uptime_s()))
    files.add("/proc/cpuinfo", lambda: "\n".join(f"processor\t: {cpu}" for cpu in sorted(board.online)))

    def meminfo() -> str:
        total, used, swapped = memory.total_mib, board.memory_used_mib(), board.swap_used_mib()
        lines = {
            "MemTotal": total,
            "MemFree": (total - used) / 2,
            "MemAvailable": total - used,
            "SwapTotal": total / 2,
            "SwapFree": total / 2 - swapped,
        }
        return "\n".join(f"{name + ':':16}{int(mib * 1024):>8} kB" for name, mib in lines.items())

    def vmstat() -> str:
        out_mib = board.swap_used_mib()
        back_mib = board.swap_in_mib + out_mib / 2
        return f"pswpin {int(back_mib * _PAGES_PER_MIB)}\npswpout {int(out_mib * _PAGES_PER_MIB)}"

    files.add("/proc/meminfo", meminfo)
    files.add("/proc/vmstat", vmstat)
    files.add("/proc/swaps", "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n/dev/zram0 partition 650000 0 5")
    keep(board, "/proc/sys/vm/drop_caches", "0")


def _cpus(board: FakeBoard) -> None:
    files = board.files
    cpus = sorted(board.layout.cpus)
    files.add(CPUS + "possible", f"0-{cpus[-1]}")
    files.add(CPUS + "present", f"0-{cpus[-1]}")
    files.add(CPUS + "online", lambda: _ranges(board.online))
    for cpu in cpus:
        files.folder(f"{CPUS}cpu{cpu}")
        if cpu:  # the first one cannot be switched off
            files.add(f"{CPUS}cpu{cpu}/online", _is_online(board, cpu), drawing(board, _switch(board, cpu)))
        files.add(f"{CPUS}cpu{cpu}/cpuidle/state0/name", "WFI")
        files.add(f"{CPUS}cpu{cpu}/cpuidle/state1/name", "c7")
        keep(board, f"{CPUS}cpu{cpu}/cpuidle/state1/disable", "0")
    for cluster, clock in zip(board.layout.clusters, board.cpus, strict=True):
        _policy(board, cluster, clock)


def _is_online(board: FakeBoard, cpu: int) -> Callable[[], str]:
    return lambda: str(int(cpu in board.online))


def _switch(board: FakeBoard, cpu: int) -> Write:
    def write(text: str) -> None:
        if text not in ("0", "1"):
            raise fail(errno.EINVAL, f"cpu{cpu}/online")
        (board.online.add if text == "1" else board.online.discard)(cpu)

    return write


def _policy(board: FakeBoard, cluster: tuple[int, ...], clock: LimitedClock) -> None:
    files = board.files
    folder = f"{CPUS}cpufreq/policy{cluster[0]}"

    def awake() -> bool:
        return not board.online.isdisjoint(cluster)

    limits(board, folder, "scaling_", clock, awake)
    files.add(f"{folder}/scaling_cur_freq", lambda: str(int(clock.step(board.phase != IDLE) * clock.factor)))
    files.add(f"{folder}/cpuinfo_min_freq", str(clock.steps[0]))
    files.add(f"{folder}/cpuinfo_max_freq", str(clock.steps[-1]))
    files.add(f"{folder}/scaling_available_frequencies", " ".join(str(step) for step in clock.steps) + " ")
    files.add(f"{folder}/related_cpus", " ".join(str(cpu) for cpu in cluster))
    files.add(f"{folder}/affected_cpus", lambda: " ".join(str(cpu) for cpu in cluster if cpu in board.online))
    governor(board, folder, "scaling_", "cpu")
    for cpu in cluster:
        files.link(f"{CPUS}cpu{cpu}/cpufreq", folder)


def _ranges(numbers: set[int]) -> str:
    """`0-3,6`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def _thermal(board: FakeBoard) -> None:
    files = board.files
    for number, kind in enumerate(board.layout.zones(board.kernel)):
        folder = f"/sys/devices/virtual/thermal/thermal_zone{number}"
        files.add(f"{folder}/type", kind)
        files.add(f"{folder}/temp", _temperature(board, kind))
        for trip, (name, temperature) in enumerate((("passive", 99000), ("critical", 104500))):
            files.add(f"{folder}/trip_point_{trip}_type", name)
            files.add(f"{folder}/trip_point_{trip}_temp", str(temperature))
        files.link(f"/sys/class/thermal/thermal_zone{number}", folder)
    for number, kind in enumerate(("cpu-throttle-alert", "gpu-throttle-alert", "soc0-throttle-alert", "pwm-fan")):
        folder = f"/sys/devices/virtual/thermal/cooling_device{number}"
        on = kind.startswith("gpu" if board.gpu else "cpu")
        files.add(f"{folder}/type", kind)
        files.add(f"{folder}/max_state", "1")
        files.add(f"{folder}/cur_state", _alert(board, on))
        files.link(f"/sys/class/thermal/cooling_device{number}", folder)


def _alert(board: FakeBoard, on: bool) -> Callable[[], str]:
    return lambda: str(int(board.throttled and on))


def _temperature(board: FakeBoard, kind: str) -> Callable[[], str]:
    """Zones without power have no value: EAGAIN."""
    lower_c = 0.0 if kind.lower().startswith(("tj", "cpu")) else 1.5

    def read() -> str:
        if kind.startswith("cv") or (kind.lower().startswith("gpu") and board.railgated):
            raise fail(errno.EAGAIN, kind)
        if kind.startswith("PMIC"):
            return "50000"
        return str(round((board.temperature_c() - lower_c) * 1000))

    return read
