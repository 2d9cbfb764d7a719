"""Numbers in files of the kernel, and what is said of a file that gives none."""

import errno
import os
import re
from typing import Callable, Optional

from ..meter import MeterFault
from ..sysfs import SysFs

_WHOLE = re.compile(r"-?[0-9]{1,19}")  # float() also takes nan, 1e5 and 1_000, which no kernel prints


class ReadFault(MeterFault):
    """A meter, or a file of one, that gives no watts, and what mends it.

    Args:
        text: What is wrong and where.
        mend: The command that mends it, or shows more.
    """

    def __init__(self, text: str, mend: str) -> None:
        super().__init__(text)
        self.mend = mend


def read_number(sysfs: SysFs, name: str, mend_access: Optional[str] = None) -> float:
    """The whole number in a file, in the file's unit.

    Args:
        mend_access: What to do where the right to read is missing; by default `sudo chmod a+r` on the file.

    Raises:
        ReadFault: the file is missing, unreadable, empty or holds something else.
    """
    try:
        text = sysfs.read(name)
    except OSError as error:
        what = "{} cannot be read: {}".format(name, os.strerror(error.errno) if error.errno else error)
        if error.errno in (errno.EACCES, errno.EPERM):
            mend = mend_access or "start the program with sudo, or until the next reboot: sudo chmod a+r {}".format(
                name
            )
        elif error.errno == errno.ENOENT:
            mend = "ls {}: the driver gives no such file, or was unloaded".format(os.path.dirname(name))
        else:
            mend = "cat {}".format(name)
        raise ReadFault(what, mend) from error
    if not text:
        raise ReadFault("{} is empty".format(name), "cat {}".format(name))
    if not _WHOLE.fullmatch(text):
        raise ReadFault("{} holds {!r}: no number".format(name, text[:40]), "cat {}".format(name))
    return float(text)


def positive(name: str, read_w: Callable[[], float], mend: str) -> Callable[[], float]:
    """`read_w` of a total, which raises MeterFault where it reads 0 W or less."""

    def read() -> float:
        watts = read_w()
        if not watts > 0:
            raise ReadFault("{} reads {:g} W: no meter of a running machine does".format(name, watts), mend)
        return watts

    return read


def interval_s(sysfs: SysFs, chip: str) -> Optional[float]:
    """Over how long a hwmon chip averages (its `update_interval`, in ms), or None where it does not say."""
    try:
        return read_number(sysfs, chip + "/update_interval") / 1e3
    except MeterFault:
        return None
