"""NVIDIA's power modes: what nvpmodel's files say of them, and which one holds. Nothing is ever changed here."""

import re
import subprocess
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from .sysfs import SysFs

CONF = "/etc/nvpmodel.conf"
STATUS = "/var/lib/nvpmodel/status"

Runner = Callable[[List[str]], Optional[str]]
"""Runs a command of the host and gives what it printed, errors included; None where it cannot be run."""

_COMMAND_TIMEOUT_S = 5.0
_UNLIMITED = (-1, 2147483647)


def run_command(command: List[str]) -> Optional[str]:
    """The `Runner` of a real machine. It has no terminal: a question (nvpmodel asks for reboots) is never answered."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMMAND_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


class Mode(NamedTuple):
    """One power mode of the conf file.

    Attributes:
        number, name: As `nvpmodel -m` and `-q` use them.
        limits: Group -> key -> value, as in the file: CPU clocks in kHz, GPU and memory clocks in Hz.
    """

    number: int
    name: str
    limits: Dict[str, Dict[str, int]]

    @property
    def gpu_max_mhz(self) -> Optional[float]:
        """Its cap on the GPU clock; None: no cap. The GPU runs the next lower step."""
        caps = [value for value in self._values("GPU", "MAX_FREQ") if value > 0 and value not in _UNLIMITED]
        return min(caps) / 1e6 if caps else None

    @property
    def cpu_max_mhz(self) -> Dict[str, float]:
        """Its caps on CPU clocks, by group; those without a cap are left out."""
        found = {}
        for group, keys in self.limits.items():
            value = keys.get("MAX_FREQ", -1)
            if group.startswith("CPU") and value > 0 and value not in _UNLIMITED:
                found[group] = value / 1e3
        return found

    @property
    def tpc_mask(self) -> Optional[int]:
        """The parts of the GPU that are switched off; a change takes a reboot."""
        masks = self._values("", "TPC_PG_MASK")
        return masks[0] if masks else None

    def _values(self, start: str, key: str) -> List[int]:
        return [keys[key] for group, keys in self.limits.items() if group.startswith(start) and key in keys]


class PowerModes(NamedTuple):
    """All that is known of the modes.

    Attributes:
        modes: By number; empty where the conf file tells none.
        default: The number of the mode at boot.
        number, name: The mode that holds now.
        reason: Why number or name are None, in words; None where both are known.
    """

    modes: Dict[int, Mode]
    default: Optional[int]
    number: Optional[int]
    name: Optional[str]
    reason: Optional[str]

    def widest(self) -> Optional[Mode]:
        """The mode that caps the GPU clock least; of several the first."""
        if not self.modes:
            return None
        return max(self.modes.values(), key=lambda mode: (mode.gpu_max_mhz or float("inf"), -mode.number))

    @property
    def words(self) -> Optional[str]:
        """The mode that holds: `25W (mode 1)`; None where nothing is known."""
        if self.number is None:
            return self.name
        return "mode {}".format(self.number) if self.name is None else "{} (mode {})".format(self.name, self.number)


def read_modes(sysfs: SysFs, runner: Runner = run_command) -> PowerModes:
    """The modes by nvpmodel's files; on a real machine nvpmodel itself is asked for what they do not tell.

    Args:
        runner: Runs `nvpmodel -q`; only on the machine's own root.
    """
    text, missing = _readable(sysfs, CONF)
    modes, default = parse_conf(text)
    if text and not modes:
        missing = "{} names no power mode".format(CONF)
    number, reason = current_number(sysfs)
    name = modes[number].name if number in modes else None
    if (number is None or name is None) and sysfs.real:
        asked = parse_query(runner(["nvpmodel", "-q"]) or "")
        if asked is not None:
            return PowerModes(modes, default, asked[1] if asked[1] is not None else number, asked[0], None)
    if number is not None and name is None:
        reason = missing or "{} has no mode {}, which {} names".format(CONF, number, STATUS)
    elif number is None and not modes and missing:
        reason = "{}; {}".format(reason, missing)
    return PowerModes(modes, default, number, name, reason)


def current_number(sysfs: SysFs) -> Tuple[Optional[int], Optional[str]]:
    """The mode that holds, by its state file (`pmode:0001`), and why it is not known."""
    text, missing = _readable(sysfs, STATUS)
    found = re.search(r"pmode:\s*(\d{1,6})\b", text) or re.match(r"(\d{1,6})$", text)
    if found:
        return int(found.group(1)), None
    return None, missing or "{} cannot be understood: {!r}".format(STATUS, text[:40])


def parse_query(text: str) -> Optional[Tuple[str, Optional[int]]]:
    """Name and number by what `nvpmodel -q` prints, warnings and errors before them or between."""
    lines = [line.strip() for line in text.splitlines()]
    for i, line in enumerate(lines):
        found = re.match(r"NV Power Mode:\s*(\S.*)$", line)
        if found:
            numbers = [int(later) for later in lines[i + 1 :] if re.match(r"\d{1,6}$", later)]
            return found.group(1).strip(), (numbers[0] if numbers else None)
    return None


def parse_conf(text: str) -> Tuple[Dict[int, Mode], Optional[int]]:
    """The modes of a conf file and the default's number. Lines that are not understood are passed over."""
    modes: Dict[int, Mode] = {}
    default: Optional[int] = None
    current: Optional[Mode] = None
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        section = re.match(r"<\s*(\w+)\s*(.*?)\s*>$", line)
        if section:
            attributes = dict(re.findall(r"(\w+)=(\S+)", section.group(2)))
            current = None
            number = _integer(attributes.get("ID"))
            if section.group(1) == "POWER_MODEL" and number is not None:
                current = modes[number] = Mode(number, attributes.get("NAME", "mode {}".format(number)), {})
            elif section.group(1) == "PM_CONFIG":
                default = _integer(attributes.get("DEFAULT"))
        elif current is not None:
            words = line.split()
            value = _integer(words[2]) if len(words) == 3 else None
            if value is not None:
                current.limits.setdefault(words[0], {})[words[1]] = value
    return modes, default


def _integer(text: Optional[str]) -> Optional[int]:
    found = re.match(r"(-?\d{1,18})$|0[xX]([0-9a-fA-F]{1,16})$", text or "")
    if not found:
        return None
    return int(found.group(1)) if found.group(1) else int(found.group(2), 16)


def _readable(sysfs: SysFs, name: str) -> Tuple[str, Optional[str]]:
    """A file's text, and why there is none: a sentence."""
    try:
        text = sysfs.read(name)
    except OSError as error:
        return "", "{} cannot be read: {}".format(name, error.strerror or error)
    return text, None if text else "{} is empty".format(name)
