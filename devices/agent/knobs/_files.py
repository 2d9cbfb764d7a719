"""What the knobs share: numbers in files of the kernel, and what is said of a file that gives none or takes none."""

import errno
import os
import re
from typing import Dict, List, Optional, Tuple

from ..board import Problem
from ..failures import AgentError
from ..identity import JETSON, identify
from ..power_mode import read_modes
from ..sysfs import SysFs

NOT_APPLIED = "clock_not_applied"
THROTTLED = "throttled"

NO_RIGHT = (errno.EACCES, errno.EPERM)
_WHOLE = re.compile(r"[0-9]{1,15}$")


class NoValue(Exception):  # noqa: N818  # said of a file, as Fault is of the device
    """A file that gives no number.

    Args:
        text: What is wrong and where, for the user.
        number: The kernel's error number; None where the file can be read, but holds something else.
    """

    def __init__(self, text: str, number: Optional[int] = None) -> None:
        super().__init__(text)
        self.number = number


class Unusable(Exception):  # noqa: N818
    """Something is there that should be a knob and cannot be used: a problem for the user."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what)
        self.problem = Problem(what, mend)


def read_text(sysfs: SysFs, name: str) -> str:
    """The text of a file that may not be empty.

    Raises:
        NoValue: there is none.
    """
    try:
        text = sysfs.read(name)
    except OSError as error:
        raise NoValue("{} cannot be read: {}".format(name, error.strerror or error), error.errno or 0) from error
    if not text:
        raise NoValue("{} is empty".format(name))
    return text


def read_int(sysfs: SysFs, name: str) -> int:
    """The whole number in a file.

    Raises:
        NoValue: there is none.
    """
    return _whole(name, read_text(sysfs, name))


def read_ints(sysfs: SysFs, name: str) -> List[int]:
    """The numbers above 0 that a file lists with blanks between them, ascending, each once.

    Raises:
        NoValue: there is none, or one of the words is no such number.
    """
    numbers = {_whole(name, word) for word in read_text(sysfs, name).split()}
    if 0 in numbers:
        raise NoValue("{} lists 0, which is no clock".format(name))
    return sorted(numbers)


def write(sysfs: SysFs, name: str, text: str) -> None:
    """Write into a file of the kernel.

    Raises:
        AgentError: kind `device`: this process may not, with what gives the right.
        OSError: the kernel refuses otherwise.
    """
    try:
        sysfs.write(name, text)
    except OSError as error:
        if error.errno in NO_RIGHT or error.errno == errno.EROFS:
            raise AgentError("device", *refused(name, error.errno)) from error
        raise


def refused(name: str, number: int) -> Problem:
    """What is said of a file that cannot be written, by the kernel's error number."""
    if number in NO_RIGHT:
        return Problem("{} may only be written by root".format(name), "run the agent with root's rights: sudo")
    if number == errno.EROFS:
        what = "{} lies on a read-only mount, as /sys does in a container".format(name)
        return Problem(what, "run the agent outside of the container, or start the container with --privileged")
    if number == errno.ENOENT:
        return Problem("{} is missing".format(name), "see what the driver offers: ls {}".format(os.path.dirname(name)))
    return Problem("{} cannot be written: {}".format(name, os.strerror(number)), "sudo dmesg | tail")


def not_writable(sysfs: SysFs, names: List[str]) -> List[Problem]:
    """One problem for each reason why some of these files cannot be written, with the first such file."""
    numbers: Dict[int, str] = {}
    for name in names:
        number = sysfs.refusal(name)
        if number is not None:
            numbers.setdefault(number, name)
    return [refused(name, number) for number, name in numbers.items()]


def is_jetson(sysfs: SysFs) -> bool:
    """Whether the board has NVIDIA's power modes."""
    return identify(sysfs).family == JETSON


def wider_mode(sysfs: SysFs) -> str:
    """The command for a power mode that allows more. It is the user's to give: some modes take a reboot."""
    widest = read_modes(sysfs).widest()
    mode = "ID, one of /etc/nvpmodel.conf" if widest is None else "{} ({})".format(widest.number, widest.name)
    return "use a power mode that allows more, if the power supply does: sudo nvpmodel -m {}".format(mode)


def open_range(steps: List[float], low: Optional[float], high: Optional[float]) -> Tuple[float, float]:
    """The lowest and highest step between two limits (None: no limit). A cap that is no step means the next lower one,
    which also counts where a lower limit lies above it."""
    top = max([step for step in steps if high is None or step <= high] or steps[:1])
    bottom = min([step for step in steps if low is None or step >= low] or [top])
    return min(bottom, top), top


def _whole(name: str, word: str) -> int:
    if not _WHOLE.match(word):
        raise NoValue("{} holds {!r}, which is no number".format(name, word[:40]))
    return int(word)
