"""The power management chip of the Raspberry Pi 5, as `vcgencmd pmic_read_adc` reads it.

It measures twelve rails behind the converters, never the 5 V input: the total is an estimate from their sum.
"""

import errno
import re
import subprocess
from typing import Callable, Dict, List, Optional, Tuple

from ..board import Problem
from ..clock import Clock
from ..meter import Channel, Meter, MeterFault
from ..sysfs import SysFs

Runner = Callable[[List[str]], Tuple[int, str]]
"""Runs a command: exit status and what it printed. Raises OSError."""

COMMAND = ["vcgencmd", "pmic_read_adc"]
RAILS = 12
_GAIN, _OFFSET_W = 1.1451, 0.5879  # a calibration of users against a plug meter: losses, USB and fan on average
_MAX_AGE_S = 0.5  # one command answers for all rails, and costs some ms of CPU: ten a second would be seen in the watts
_TIMEOUT_S = 2.0
_RESOLUTION_W = 0.01  # currents have steps of about 1 mA, that of the cores of several
_TOTAL = "input_estimated"
_VALUE = re.compile(r"^\s*(\w+?)_([AV])\s+(?:current|volt)\([0-9]+\)=([0-9]+(?:\.[0-9]+)?)[AV]\s*$", re.MULTILINE)


def run_command(words: List[str]) -> Tuple[int, str]:
    """Runs a command of this machine for at most 2 s. Raises OSError."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output = process.communicate(timeout=_TIMEOUT_S)[0]
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise OSError(errno.ETIMEDOUT, "no answer within {:g} s".format(_TIMEOUT_S)) from error
    return process.returncode, output.decode("utf-8", "replace")


def parse(text: str) -> Dict[str, float]:
    """Watts of every rail that has a current and a voltage, paired by name: their numbers in brackets differ."""
    values: Dict[str, Dict[str, float]] = {}
    for rail, quantity, value in _VALUE.findall(text):
        values.setdefault(rail, {})[quantity] = float(value)
    return {rail: pair["A"] * pair["V"] for rail, pair in values.items() if len(pair) == 2}


class Pmic:
    """The rails, read anew when what is known is older than 0.5 s."""

    def __init__(self, clock: Clock, runner: Runner) -> None:
        self._clock = clock
        self._runner = runner
        self._rails_w: Dict[str, float] = {}
        self._read_s: Optional[float] = None

    def rails_w(self) -> Dict[str, float]:
        """Watts of the twelve rails. Raises MeterFault."""
        if self._read_s is None or self._clock.monotonic() - self._read_s > _MAX_AGE_S:
            self._read_s = None
            self._rails_w = self._read()
            self._read_s = self._clock.monotonic()
        return self._rails_w

    def total_w(self) -> float:
        """The estimated input power. Raises MeterFault; zeros of the rails are one, not the calibration's offset."""
        total_w = sum(self.rails_w().values())
        if not total_w > 0:
            raise MeterFault("all rails of `{}` read 0 W".format(" ".join(COMMAND)))
        return _GAIN * total_w + _OFFSET_W

    def _read(self) -> Dict[str, float]:
        command = " ".join(COMMAND)
        try:
            status, text = self._runner(COMMAND)
        except OSError as error:
            raise MeterFault("`{}` cannot be run: {}".format(command, error.strerror or error)) from error
        rails_w = parse(text)
        if status or len(rails_w) != RAILS:
            said = " ".join(text.split())[:100] or "nothing"
            raise MeterFault(
                "`{}` gives {} rails with volts and amperes, not {}; exit status {}, it says: {}".format(
                    command, len(rails_w), RAILS, status, said
                )
            )
        return rails_w


def find_pmic(sysfs: SysFs, clock: Clock, runner: Runner = run_command) -> Tuple[Optional[Meter], List[Problem]]:
    """The meter of a Raspberry Pi 5; None and no problem on any other machine (a Pi 4 measures no current)."""
    if "brcm,bcm2712" not in (sysfs.read_or("/proc/device-tree/compatible") or "").split("\0"):
        return None, []
    if not sysfs.real:
        what = "the power of a Raspberry Pi 5 is read with vcgencmd, which does not answer for the files under {}"
        return None, [Problem(what.format(sysfs.root), "ask on the board itself, without another root")]
    pmic = Pmic(clock, runner)
    try:
        rails = sorted(pmic.rails_w())
    except MeterFault as fault:
        return None, [Problem(str(fault), _mend(sysfs))]
    channels = [Channel(_TOTAL, pmic.total_w, True, _RESOLUTION_W)]
    channels += [Channel(rail, _rail_reader(pmic, rail)) for rail in rails]
    note = (
        "estimated, the input is not measured: {} x sum of {} rails + {} W, a calibration found by users; "
        "what hangs on USB and the header is in it on average only"
    ).format(_GAIN, RAILS, _OFFSET_W)
    return Meter(_TOTAL + " (Raspberry Pi 5)", channels, [_TOTAL], lag_s=_MAX_AGE_S, note=note), []


def _rail_reader(pmic: Pmic, rail: str) -> Callable[[], float]:
    def read_w() -> float:
        rails_w = pmic.rails_w()
        if rail not in rails_w:
            raise MeterFault("`{}` gives no {} any more".format(" ".join(COMMAND), rail))
        return rails_w[rail]

    return read_w


def _mend(sysfs: SysFs) -> str:
    refused = sysfs.refusal("/dev/vcio")
    if refused == errno.ENOENT:
        return "there is no /dev/vcio: in a container, start it with --device /dev/vcio"
    if refused is not None:
        return "sudo usermod -aG video $USER, then log in again: /dev/vcio belongs to that group"
    return "sudo apt install raspi-utils, or update the firmware: sudo rpi-eeprom-update -a"
