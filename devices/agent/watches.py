"""What must not happen to a board during a burst, apart from the knobs: it slows down, changes its mode, or swaps."""

import re
from typing import Callable, Dict, List, Optional

from .board import Fault, Watch
from .clock import Clock
from .identity import RASPBERRY_PI, identify
from .memory import MIB
from .power_mode import STATUS, Runner, read_modes, run_command
from .swap import swapped_in_bytes
from .sysfs import SysFs
from .thermal import alert_files, over_current_files

ONLINE = "/sys/devices/system/cpu/online"
GET_THROTTLED = ["vcgencmd", "get_throttled"]

_SWAP_IN_BYTES = 16 * MIB  # what other programs may fetch meanwhile
_ASK_S = 2.0  # between two runs of a command
_PI_BITS = ("under-voltage", "the arm frequency is capped", "throttled", "soft temperature limit")
_PI_SINCE_BOOT = 16  # the bits above this one are the same, and stay until the next boot


class ModeWatch(Watch):
    """Compares the power mode with that of the moment this object was made: when the board was opened. What is measured
    in another mode is no burst of the same study, although nothing changes while it runs.

    Args:
        sysfs: The machine's.
        runner: Asks for the mode where no file tells it.
    """

    def __init__(self, sysfs: SysFs, runner: Runner = run_command) -> None:
        self._sysfs = sysfs
        self._runner = runner
        self._mode = sysfs.read_or(STATUS)
        self._modes = read_modes(sysfs, runner) if self._mode else None

    def fault(self, power_w: Optional[float]) -> Optional[Fault]:
        """Why the burst does not count, or None."""
        now = self._sysfs.read_or(STATUS)
        if self._modes is None or not now or now == self._mode:
            return None
        text = "the power mode changed: from {} to {}; sudo nvpmodel -m {} brings it back"
        words = read_modes(self._sysfs, self._runner).words
        return Fault("clock_not_applied", text.format(self._modes.words, words, self._modes.number))


class BoardWatch(Watch):
    """Compares the board with the moment this object was made.

    Throttling, over-current and swapping make a burst `throttled`: it is measured again. Another set of CPUs is
    `clock_not_applied`. Files that vanish, or cannot be read, are no fault. The first fault stays.

    Args:
        sysfs, clock: The machine's.
        runner: Runs `vcgencmd get_throttled` every two seconds, on a Raspberry Pi and its own root only.
    """

    def __init__(self, sysfs: SysFs, clock: Clock, runner: Runner = run_command) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._runner = runner
        self._is_pi = sysfs.real and identify(sysfs).family == RASPBERRY_PI
        self._found: Optional[Fault] = None
        self._alerts = alert_files(sysfs)
        self._over_current = over_current_files(sysfs)
        self._counts = self._count()
        self._online = sysfs.read_or(ONLINE)
        self._swapped_in = swapped_in_bytes(sysfs)
        self._asked_s = clock.monotonic()
        self._bits = self._pi_bits()
        self._checks: List[Callable[[], Optional[Fault]]] = [
            self._alert,
            self._event,
            self._other_cpus,
            self._swap,
            self._pi,
        ]

    def fault(self, power_w: Optional[float]) -> Optional[Fault]:
        """Why the burst does not count, or None."""
        for check in self._checks:
            self._found = self._found or check()
        return self._found

    def _alert(self) -> Optional[Fault]:
        for name, what in self._alerts.items():
            state = self._sysfs.read_or(name) or ""
            if state.isdigit() and int(state) > 0:
                return Fault("throttled", "the board slowed itself down: {} is at {}".format(what, state))
        return None

    def _event(self) -> Optional[Fault]:
        for name, count in self._count().items():
            more = count - self._counts.get(name, count)
            if more > 0:
                text = "{} events during the burst: {}; each halves the clocks for a moment"
                return Fault("throttled", text.format(self._over_current[name], more))
        return None

    def _other_cpus(self) -> Optional[Fault]:
        now = self._sysfs.read_or(ONLINE)
        if not self._online or not now or now == self._online:
            return None
        text = "the CPUs that are online changed during the burst: from {} to {}"
        return Fault("clock_not_applied", text.format(self._online, now))

    def _swap(self) -> Optional[Fault]:
        now = swapped_in_bytes(self._sysfs)
        if now is None or self._swapped_in is None or now - self._swapped_in <= _SWAP_IN_BYTES:
            return None
        text = "the machine swapped: {} MiB were fetched back during the burst, so it measured the disk"
        return Fault("throttled", text.format((now - self._swapped_in) // MIB))

    def _pi(self) -> Optional[Fault]:
        now_s = self._clock.monotonic()
        if not self._is_pi or now_s - self._asked_s < _ASK_S:
            return None
        self._asked_s = now_s
        bits = self._pi_bits()
        new = bits | ((bits & ~self._bits) >> _PI_SINCE_BOOT)  # what came and went shows in the bits since boot
        words = pi_words(new)
        return Fault("throttled", "the firmware says: {}".format(", ".join(words))) if words else None

    def _pi_bits(self) -> int:
        return pi_bits(self._runner) if self._is_pi else 0

    def _count(self) -> Dict[str, int]:
        """Events of over-current since boot; counters that cannot be read are left out."""
        texts = {name: self._sysfs.read_or(name) or "" for name in self._over_current}
        return {name: int(text) for name, text in texts.items() if text.isdigit()}


def pi_bits(runner: Runner) -> int:
    """What `vcgencmd get_throttled` says; 0 where it says nothing."""
    found = re.search(r"throttled=0x([0-9a-fA-F]{1,8})\b", runner(GET_THROTTLED) or "")
    return int(found.group(1), 16) if found else 0


def pi_words(bits: int) -> List[str]:
    """What the bits say of now, in words."""
    return [word for i, word in enumerate(_PI_BITS) if bits >> i & 1]


def pi_words_since_boot(bits: int) -> List[str]:
    """What they say of the time since boot."""
    return pi_words(bits >> _PI_SINCE_BOOT)
