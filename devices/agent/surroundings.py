"""What stands around the knobs of a board: its power mode, CPUs, memory clock and idle states, and who else writes."""

import re
from typing import Any, Collection, Dict, List, NamedTuple, Optional, Set

from .board import Problem
from .identity import JETSON, RASPBERRY_PI, Identity
from .knobs.emc import CAPS as EMC_CAPS
from .knobs.gpu_devfreq import gpu_folders
from .memory import MIB, available_bytes, total_bytes
from .power_mode import PowerModes, Runner, read_modes, run_command
from .swap import swap_total_bytes, swap_used_bytes, zram_devices
from .sysfs import SysFs
from .thermal import alert_files, hottest
from .watches import ONLINE, pi_bits, pi_words, pi_words_since_boot

STORED_CLOCKS = "/root/l4t_dfs.conf"  # what jetson_clocks --store writes, for root

_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_CPUIDLE = "/sys/devices/system/cpu/cpu0/cpuidle"
_EMC = "/sys/kernel/debug/bpmp/debug/clk/emc/"
_UNITS = "/etc/systemd/system"
_WRITERS = ("jtop", "jetson_clocks", "nvpmodel", "nvpower")  # programs and units, without .sh and .service
_STOCK_TOP_MHZ = 700.0  # the table of an Orin Nano with the stock firmware ends at 624.75 MHz, with Super at 1020
_LEAST_MEMORY = 0.10  # of it that should be available before a study
_MOST_SWAP_BYTES = 256 * MIB


class Writers(NamedTuple):
    """What else may write the clocks.

    Attributes:
        running: Programs that run now: `jtop`.
        enabled: Units that systemd starts by itself: `nvpmodel.service`.
        pinned: Whether GPU and CPUs all stand at one clock each, as jetson_clocks leaves them.
    """

    running: List[str]
    enabled: List[str]
    pinned: bool


def other_writers(sysfs: SysFs, kept: Collection[str] = ()) -> Writers:
    """By the processes, by systemd's links, and by the clocks themselves.

    Args:
        kept: Files that an agent of ours has changed: clocks that stand still there are its work.
    """
    running: Set[str] = set()
    for pid in sysfs.list("/proc"):
        if pid.isdigit():
            running.update(_programs(sysfs, pid) & set(_WRITERS))
    enabled = {
        unit
        for folder in sysfs.list(_UNITS)
        if folder.endswith(".wants")
        for unit in sysfs.list("{}/{}".format(_UNITS, folder))
        if unit.partition(".")[0] in _WRITERS
    }
    return Writers(sorted(running), sorted(enabled), _pinned(sysfs, kept))


def held_fixed(sysfs: SysFs, identity: Identity, runner: Runner = run_command) -> Dict[str, Any]:
    """What is recorded beside a study, for it must be the same when the study is used; what cannot be read is left out.

    Keys: power_mode and power_mode_id, cpus_online, cpu_freq_mhz (of each policy: lowest and highest allowed),
    cpu_governor, idle_states, emc_freq_mhz (where it is locked), emc_cap_mhz, gpu_governor, gpu_railgate, tpc_mask,
    l4t, jetpack, other_writers.
    """
    found: Dict[str, Any] = {"l4t": identity.l4t, "jetpack": identity.jetpack}
    if identity.family == JETSON:
        modes = read_modes(sysfs, runner)
        found.update(power_mode=modes.name, power_mode_id=modes.number)
        found.update(emc_freq_mhz=_emc_locked_mhz(sysfs), emc_cap_mhz=_emc_cap_mhz(sysfs))
        writers = other_writers(sysfs)
        found["other_writers"] = sorted({*writers.running, *writers.enabled}) or None
    for folder in gpu_folders(sysfs)[:1]:
        found["gpu_governor"] = sysfs.read_or(folder + "/governor")
        found["gpu_railgate"] = _on_off(sysfs.read_or(folder + "/device/railgate_enable"))
        found["tpc_mask"] = _integer(sysfs.read_or(folder + "/device/tpc_pg_mask"))
    found["cpus_online"] = sysfs.read_or(ONLINE)
    policies = _policies(sysfs)
    clocks = {}
    for policy in policies:
        low, high = (_integer(sysfs.read_or("{}/scaling_{}_freq".format(policy, end))) for end in ("min", "max"))
        if low is not None and high is not None:
            clocks[policy.rpartition("/")[2]] = [low / 1e3, high / 1e3]
    found["cpu_freq_mhz"] = clocks or None
    governors = sorted({sysfs.read_or(policy + "/scaling_governor") or "" for policy in policies} - {""})
    found["cpu_governor"] = ", ".join(governors) or None
    found["idle_states"] = _idle_states(sysfs)
    return {name: value for name, value in found.items() if value not in (None, "")}


def memory(sysfs: SysFs) -> Dict[str, Any]:
    """Memory and swap now, in MiB; None where it cannot be read."""
    sizes = {
        "total_mib": total_bytes(sysfs),
        "available_mib": available_bytes(sysfs),
        "swap_mib": swap_total_bytes(sysfs),
        "swap_used_mib": swap_used_bytes(sysfs),
    }
    found: Dict[str, Any] = {name: None if size is None else size // MIB for name, size in sizes.items()}
    return dict(found, zram_devices=zram_devices(sysfs))


def problems(
    sysfs: SysFs, identity: Identity, runner: Runner = run_command, kept: Collection[str] = ()
) -> List[Problem]:
    """What is wrong around the knobs, and what mends it.

    Args:
        runner: Runs nvpmodel and vcgencmd; only on the machine's own root.
        kept: Files that an agent of ours has changed.
    """
    found = [*_heat_problems(sysfs), *_memory_problems(sysfs)]
    if identity.family == JETSON:
        modes = read_modes(sysfs, runner)
        found += _mode_problems(sysfs, identity, modes)
        found += _writer_problems(other_writers(sysfs, kept), sysfs.exists(STORED_CLOCKS))
    if identity.family == RASPBERRY_PI and sysfs.real:
        found += _pi_problems(pi_bits(runner))
    return found


def _heat_problems(sysfs: SysFs) -> List[Problem]:
    found = []
    zone = hottest(sysfs)
    if zone is not None and zone.temperature_c >= zone.limit_c - 5:
        text = "{} is at {:g} C; a burst ends at {:g} C"
        mend = "let the board cool down; give it a fan, or clean it"
        found.append(Problem(text.format(zone.name, zone.temperature_c, zone.limit_c), mend))
    for name, what in alert_files(sysfs).items():
        state = _integer(sysfs.read_or(name))
        if state:
            text = "the board slows itself down now: {} holds {}, of {}".format(name, state, what)
            found.append(Problem(text, "let it cool down; then look again: cat {}".format(name)))
    return found


def _memory_problems(sysfs: SysFs) -> List[Problem]:
    found = []
    total, available, used = total_bytes(sysfs), available_bytes(sysfs), swap_used_bytes(sysfs)
    if total and available is not None and available < _LEAST_MEMORY * total:
        text = "only {} of {} MiB of memory are available".format(available // MIB, total // MIB)
        found.append(Problem(text, "end programs that are not needed: ps aux --sort=-rss | head"))
    if used is not None and used > _MOST_SWAP_BYTES:
        text = "{} MiB of swap are in use: a machine that swaps measures its disk".format(used // MIB)
        found.append(Problem(text, "end programs that are not needed, then: sudo swapoff -a && sudo swapon -a"))
    return found


def _mode_problems(sysfs: SysFs, identity: Identity, modes: PowerModes) -> List[Problem]:
    found = []
    if modes.reason is not None:
        what = "the power mode is not known: {}".format(modes.reason)
        if modes.number is not None:
            what = "the power mode is {}, its name is not known: {}".format(modes.number, modes.reason)
        mend = "ask on the board: sudo nvpmodel -q; into a container mount /etc/nvpmodel.conf and /var/lib/nvpmodel"
        found.append(Problem(what, mend))
    top_mhz = _gpu_top_mhz(sysfs)
    supers = [mode.name for mode in modes.modes.values() if "SUPER" in mode.name.upper()]
    nano = (identity.module or "").startswith("jetson-orin-nano")
    if nano and (supers or identity.module == "jetson-orin-nano-super") and top_mhz and top_mhz < _STOCK_TOP_MHZ:
        why = "there is a power mode {}".format(supers[0]) if supers else "the board calls itself Super"
        text = "{}, but the GPU's table ends at {:g} MHz: the boot firmware is of an older release"
        mend = "flash the module anew with JetPack 6.2 or later, configuration jetson-orin-nano-devkit-super"
        found.append(Problem(text.format(why, top_mhz), mend))
    return found


def _writer_problems(writers: Writers, stored: bool) -> List[Problem]:
    found = []
    if "jtop" in writers.running:
        text = "jtop runs: its samples take time from the training, and its buttons write the same clocks"
        found.append(Problem(text, "sudo systemctl stop jtop.service"))
    others = [name for name in writers.running if name != "jtop"]
    if others:
        text = "{} runs now and writes the same clocks"
        found.append(Problem(text.format(", ".join(others)), "wait until it has ended"))
    if writers.pinned:
        mend = "sudo jetson_clocks --restore"
        if not stored:
            mend = "nothing was stored before ({} is missing), so: sudo reboot".format(STORED_CLOCKS)
        found.append(Problem("GPU and CPUs are each pinned at one clock, as jetson_clocks leaves them", mend))
    return found


def _pi_problems(bits: int) -> List[Problem]:
    now, before = pi_words(bits), pi_words_since_boot(bits)
    words = now or before
    if not words:
        return []
    mend = "let it cool down; give it a heat sink or a fan"
    if "under-voltage" in words:
        mend = "use the power supply and the cable made for this board"
    text = "the firmware says {}: {} (vcgencmd get_throttled)"
    return [Problem(text.format("of now" if now else "of the time since boot", ", ".join(words)), mend)]


def _programs(sysfs: SysFs, pid: str) -> Set[str]:
    """By what names a process may be known: its own, its program's, and its script's where an interpreter runs one."""
    words = (sysfs.read_or("/proc/{}/cmdline".format(pid)) or "").split("\0")[:2]
    names = [sysfs.read_or("/proc/{}/comm".format(pid)) or "", *words]
    return {re.sub(r"\.(sh|py)$", "", name.rpartition("/")[2]) for name in names}


def _pinned(sysfs: SysFs, kept: Collection[str]) -> bool:
    ends = [(folder + "/min_freq", folder + "/max_freq") for folder in gpu_folders(sysfs)]
    policies = [(policy + "/scaling_min_freq", policy + "/scaling_max_freq") for policy in _policies(sysfs)]
    if not ends or not policies or any(name in kept for pair in [*ends, *policies] for name in pair):
        return False
    return all(sysfs.read_or(low) == sysfs.read_or(high) is not None for low, high in [*ends, *policies])


def _policies(sysfs: SysFs) -> List[str]:
    """Folders of the CPUs' clocks; each policy once."""
    names = [name for name in sysfs.list(_CPUFREQ) if re.match(r"policy\d+$", name)]
    return ["{}/{}".format(_CPUFREQ, name) for name in names]


def _gpu_top_mhz(sysfs: SysFs) -> Optional[float]:
    for folder in gpu_folders(sysfs)[:1]:
        steps = [
            int(word) for word in (sysfs.read_or(folder + "/available_frequencies") or "").split() if word.isdigit()
        ]
        return max(steps) / 1e6 if steps else None
    return None


def _emc_locked_mhz(sysfs: SysFs) -> Optional[float]:
    rate = _integer(sysfs.read_or(_EMC + "rate"))
    return rate / 1e6 if rate and _integer(sysfs.read_or(_EMC + "mrq_rate_locked")) == 1 else None


def _emc_cap_mhz(sysfs: SysFs) -> Optional[float]:
    for name in EMC_CAPS:
        cap = _integer(sysfs.read_or(name))
        if cap:  # 0: none
            return cap / 1e6
    return None


def _idle_states(sysfs: SysFs) -> Optional[str]:
    """Whether the CPUs may sleep: `off` where all states that can be disabled are, as jetson_clocks does."""
    names = [name for name in sysfs.list(_CPUIDLE) if name.startswith("state")]
    disabled = [sysfs.read_or("{}/{}/disable".format(_CPUIDLE, name)) for name in names]
    known = [text for text in disabled if text in ("0", "1")]
    if not known:
        return None
    return _on_off("0" if all(text == "1" for text in known) else "1")


def _on_off(text: Optional[str]) -> Optional[str]:
    return {"0": "off", "1": "on"}.get(text or "")


def _integer(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and re.match(r"\d{1,18}$", text) else None
