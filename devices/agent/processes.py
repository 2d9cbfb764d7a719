"""Processes that must not outlive their purpose: ties to the parent, and the end of a whole family."""

import ctypes
import os
import signal
import sys
from typing import List

from .sysfs import SysFs

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):  # no Linux; end of input still tells that the parent has gone
        pass


def own_program() -> List[str]:
    """How this agent is started: its Python and its archive, or package; what it shall be follows."""
    program = sys.argv[0]
    return [sys.executable, *(["-m", __package__] if os.path.basename(program) == "__main__.py" else [program])]


def end_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends, also when that already happened.

    Args:
        parent_pid: The parent's process id, as the parent itself knows it.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.stderr.write("its parent has ended, or a program stands between them (a wrapper must exec Python)\n")
        sys.stderr.flush()
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none escapes `end_descendants`."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_group(pid: int) -> None:
    """Kill the process group that `pid` leads."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:  # none left
        pass


def end_descendants() -> None:
    """Kill what this process has for children, again and again until none is left: orphans come up from below."""
    for _ in range(100):
        children = _children()
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:  # gone in the meantime, or reaped by whoever started it
                pass
        if not children:
            return


def _children() -> List[int]:
    own, sysfs = str(os.getpid()), SysFs()  # processes are the machine's, whatever board its files stand for
    found = []
    for name in sysfs.list("/proc"):
        if name.isdigit():
            stat = sysfs.read_or("/proc/{}/stat".format(name), "") or ""
            fields = stat.rpartition(")")[2].split()  # state, ppid, ...; a name in brackets may hold anything
            if len(fields) > 1 and fields[1] == own:
                found.append(int(name))
    return found
