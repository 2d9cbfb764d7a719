"""Files of a fake board that several parts have: choices, governors and limits of clocks."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from devices.fake.clocks import LimitedClock
from devices.fake.files import Write, fail

if TYPE_CHECKING:
    from devices.fake.board import FakeBoard

CPUS = "/sys/devices/system/cpu/"
_GOVERNORS = {
    "gpu": "userspace tegra_wmark nvhost_podgov performance simple_ondemand",
    "cpu": "conservative ondemand userspace powersave performance schedutil",
}


def keep(board: FakeBoard, name: str, value: str) -> None:
    """A file that holds what was written, and has no other effect."""
    board.tunables[name] = value
    board.files.add(name, lambda: board.tunables[name], lambda text: board.tunables.update({name: text}))


def drawing(board: FakeBoard, act: Callable[[str], None]) -> Write:
    """A write that may change what is drawn."""
    return lambda text: board.change(lambda: act(text))


def choice(board: FakeBoard, attribute: str, allowed: tuple[str, ...]) -> Write:
    """A write of one of a few words, kept as an attribute of the board."""

    def write(text: str) -> None:
        if text not in allowed:
            raise fail(errno.EINVAL, attribute)
        setattr(board, attribute, text)

    return drawing(board, write)


def governor(board: FakeBoard, folder: str, prefix: str, kind: str) -> None:
    """The governor of a clock and the list of them; it is kept, and governs as all do: high under load."""

    def write(text: str) -> None:
        if text not in _GOVERNORS[kind].split():
            raise fail(errno.EINVAL, "governor")
        board.governors[kind] = text

    board.files.add(f"{folder}/{prefix}governor", lambda: board.governors[kind], write)
    board.files.add(f"{folder}/{prefix}available_governors", _GOVERNORS[kind])


def limits(board: FakeBoard, folder: str, prefix: str, clock: LimitedClock, awake: Callable[[], bool]) -> None:
    """min and max of a clock; while what it drives is switched off, nothing can be written."""

    def guarded(act: Callable[[str], None]) -> Write:
        def write(text: str) -> None:
            if not awake():
                raise fail(errno.EINVAL, folder)
            act(text)

        return drawing(board, write)

    files = board.files
    files.add(f"{folder}/{prefix}min_freq", lambda: str(clock.limits[0]), guarded(clock.write_low))
    files.add(f"{folder}/{prefix}max_freq", lambda: str(clock.limits[1]), guarded(clock.write_high))
