"""The journal: what the board's files held before the agent wrote into them, and how that is put back.

It is on disk before the first write, so that a guardian, the next agent or `tune doctor --restore` can put everything
back when the agent was killed. After a reboot it is void: the kernel has begun anew.
"""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from .clock import Clock
from .failures import AgentError
from .sysfs import SysFs

NAME = "/run/tuner/journal.json"
_PASSES = 5  # a limit may only be writable once another is back: the order does not have to be known
_SETTLE_S = 0.05  # between two passes


class Restored(NamedTuple):
    """What became of the files of a journal.

    Attributes:
        names: Those that hold again what was found.
        failed: The others, each with what it holds and what it should: sentences.
    """

    names: List[str]
    failed: List[str]


class Journal:
    """Of one board. Several processes may hold one: what counts is on disk.

    Args:
        sysfs, clock: Files and time.
    """

    def __init__(self, sysfs: SysFs, clock: Clock) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._values: Dict[str, str] = {}
        self._groups: List[int] = []

    @property
    def names(self) -> List[str]:
        """The files whose values are kept, in the order in which they were."""
        return list(self._values)

    def keep(self, names: List[str]) -> None:
        """Have on disk what these files hold now, unless it is already: before they are written.

        Raises:
            AgentError: kind `device`: another agent holds the board, or the journal cannot be written. Nothing may be
                written then.
        """
        if not self._values:
            self._claim()
        new = {name: self._sysfs.read_or(name) for name in names if name not in self._values}
        found = {name: value for name, value in new.items() if value is not None}
        if not found:
            return
        self._save({**self._values, **found})
        self._values.update(found)

    def note_group(self, pid: int) -> None:
        """Remember a process group that must not outlive the agent."""
        self._groups = [pid]
        if self._values:
            self._save(self._values)

    def restore(self) -> Restored:
        """Put every value back and verify it; the journal ends where all is as it was found. One that was never begun
        touches nothing: what is on disk is another agent's."""
        if not self._values:
            return Restored([], [])
        result = put_back(self._sysfs, self._clock, self._values)
        if not result.failed:
            self._values = {}
            self._sysfs.remove(NAME)
        return result

    def _save(self, values: Dict[str, str]) -> None:
        document = {
            "boot_id": boot_id(self._sysfs),
            "pid": os.getpid(),
            "began": began(os.getpid()),
            "groups": [[pid, began(pid)] for pid in self._groups],
            "values": list(values.items()),
        }
        try:
            self._sysfs.replace(NAME, json.dumps(document))
        except OSError as error:
            text = "the journal {} cannot be written ({}), so no knob is touched".format(NAME, error.strerror or error)
            raise AgentError("device", text, "run the agent with the right to write there: sudo") from error

    def _claim(self) -> None:
        """Put back what a dead agent left, and refuse beside a living one."""
        left = load(self._sysfs)
        if left is None:
            return
        if is_held(left):
            text = "another agent, process {}, tunes this board".format(left["pid"])
            raise AgentError("device", text, "wait for it, or end it: kill {}".format(left["pid"]))
        result = recover(self._sysfs, self._clock)
        if result.failed:
            raise AgentError("device", "an earlier run left knobs changed: {}".format("; ".join(result.failed)), MEND)


MEND = "sudo tune doctor --restore"


def load(sysfs: SysFs) -> Optional[Dict[str, Any]]:
    """What a journal on disk says; None where there is none of this boot, or one that nobody can read."""
    try:
        document = json.loads(sysfs.read(NAME))
        values = {str(name): str(value) for name, value in document["values"]}
        found: Dict[str, Any] = {
            "boot_id": document["boot_id"],
            "pid": int(document["pid"]),
            "began": document["began"],
            "groups": [int(pid) for pid, since in document["groups"] if _is_group(int(pid), since)],
            "values": values,
        }
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return found if found["boot_id"] == boot_id(sysfs) else None


def recover(sysfs: SysFs, clock: Clock, orphaned: bool = False) -> Restored:
    """Put back what the journal on disk holds; nothing where there is none.

    Args:
        sysfs, clock: Files and time.
        orphaned: It is known that its agent has gone.

    Raises:
        AgentError: kind `device`: the agent that wrote it lives, and will put everything back itself.
    """
    document = load(sysfs)
    if document is None:
        return Restored([], [])
    if not orphaned and is_held(document):
        text = "the agent that tunes this board, process {}, still runs".format(document["pid"])
        raise AgentError("device", text, "end it, and it puts everything back: kill {}".format(document["pid"]))
    result = put_back(sysfs, clock, document["values"])
    if not result.failed:
        sysfs.remove(NAME)
    return result


def put_back(sysfs: SysFs, clock: Clock, values: Dict[str, str]) -> Restored:
    """Write values until every file holds its own, in a few passes: a limit that another one forbids comes later."""
    refused: Dict[str, str] = {}
    for i in range(_PASSES):
        left = [name for name, value in values.items() if sysfs.read_or(name) != value]
        if not left:
            break
        if i:
            clock.sleep(_SETTLE_S)
        for name in reversed(left):
            try:
                sysfs.write(name, values[name])
                refused.pop(name, None)
            except OSError as error:
                refused[name] = error.strerror or str(error)
    failed = []
    for name, value in values.items():
        now = sysfs.read_or(name)
        if now != value:
            why = ": {}".format(refused[name]) if name in refused else ""
            failed.append("{} holds {}, it held {}{}".format(name, now, value, why))
    return Restored([name for name in values if sysfs.read_or(name) == values[name]], failed)


def boot_id(sysfs: SysFs) -> Optional[str]:
    """The kernel's name of this boot."""
    return sysfs.read_or("/proc/sys/kernel/random/boot_id")


def is_held(document: Dict[str, Any]) -> bool:
    """Whether the agent that wrote the journal lives: its number, and not another process that got it."""
    return began(document["pid"]) is not None and began(document["pid"]) == document["began"]


def _is_group(pid: int, since: Optional[str]) -> bool:
    """Whether a group may still be the one that was noted: led by that process, or by nobody any more. While a group
    lasts, its number is given to no other process."""
    return pid > 1 and since is not None and began(pid) in (None, since)


def began(pid: int) -> Optional[str]:
    """When a process of this machine began, in ticks since boot; None where there is none. Processes are the machine's
    own also under another root."""
    stat = SysFs().read_or("/proc/{}/stat".format(pid))
    fields = stat.rpartition(")")[2].split() if stat else ["Z"]
    return None if fields[0] in "ZX" else fields[19]  # a dead one that nobody waited for has no say
