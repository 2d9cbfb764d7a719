"""What can go wrong on a fake board: one table, for tests and for people."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from devices.errors import InputError

if TYPE_CHECKING:
    from devices.fake.board import FakeBoard

Act = Callable[["FakeBoard"], None]

DEFAULT_AT_S = 6.0  # of a burst with a meter: in its window
_WRITTEN = re.compile(
    r"(?P<name>[^@]*)(@(?P<burst>\d{1,9})(\+(?P<count>\d{1,9}))?(:(?P<seconds>\d{1,9}(\.\d{1,9})?))?)?", re.ASCII
)
_AS_WRITTEN = "NAME[@BURST[+COUNT][:SECONDS]], as in throttle-alert@2:5 or swap@1+3"


@dataclass(frozen=True)
class Fault:
    """A fault that is to happen. Written `NAME[@BURST[+COUNT][:SECONDS]]`.

    Attributes:
        name: One of FAULTS.
        burst: In which burst since the board was made, from 1; 0: from the beginning, and for ever.
        at_s: Seconds from the request for the burst.
        bursts: In how many bursts, one after another.
    """

    name: str
    burst: int = 1
    at_s: float = DEFAULT_AT_S
    bursts: int = 1

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Raises InputError."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise InputError(f"'{text}' is no fault", hint=_AS_WRITTEN)
        given = {key: number for key, number in found.groupdict().items() if number is not None}
        fault = cls(
            given["name"],
            int(given.get("burst", cls.burst)),
            float(given.get("seconds", cls.at_s)),
            int(given.get("count", cls.bursts)),
        )
        fault.kind()
        if fault.bursts == 0:
            raise InputError(f"'{text}' happens in no burst: +COUNT is 1 or more", hint=_AS_WRITTEN)
        if fault.burst == 0 and len(given) > 2:
            raise InputError(
                f"'{text}' is there from the beginning and for ever, so +COUNT and :SECONDS say nothing",
                hint=f"{fault.name}@0",
            )
        return fault

    def kind(self) -> Kind:
        """What it does. Raises InputError: no fault has that name."""
        if self.name not in FAULTS:
            raise InputError(f"no fault is named '{self.name}'", hint=f"faults: {', '.join(FAULTS)}")
        return FAULTS[self.name]

    def hits(self, burst: int) -> bool:
        return self.burst <= burst < self.burst + self.bursts and self.burst > 0


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        what: In words.
        begin, end: Make it happen, and put it right after the burst; no `end`: it stays, or leaves nothing.
        statuses: What a burst may say in whose window it began; empty: the burst is not touched by it.
        may_pass: Whether it may also come too late to be seen, or concern only what is written, so that `ok` is right.
    """

    what: str
    begin: Act
    end: Act | None = None
    statuses: tuple[str, ...] = ()
    may_pass: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it is a state, not a moment: then a board may have it from the beginning."""
        return self.end is not None or self.begin is _nothing


def _error(group: str, number: int) -> tuple[Act, Act]:
    def begin(board: FakeBoard) -> None:
        board.files.errors.update(dict.fromkeys(board.groups[group], number))

    def end(board: FakeBoard) -> None:
        for name in board.groups[group]:
            board.files.errors.pop(name, None)

    return begin, end


def _text(group: str, text: str) -> tuple[Act, Act]:
    def begin(board: FakeBoard) -> None:
        board.files.texts.update(dict.fromkeys(board.groups[group], text))

    def end(board: FakeBoard) -> None:
        for name in board.groups[group]:
            board.files.texts.pop(name, None)

    return begin, end


def _fate(fate: str) -> tuple[Act, None]:
    def begin(board: FakeBoard) -> None:
        board.work.fate = fate

    return begin, None


def _reset_clocks(board: FakeBoard) -> None:
    for clock in board.limited_clocks:
        clock.reset()


def _slow(board: FakeBoard) -> None:
    board.speed_clock.factor = 0.9


def _not_slow(board: FakeBoard) -> None:
    board.speed_clock.factor = 1.0


def _stick(board: FakeBoard) -> None:
    board.speed_clock.stuck = True


def _unstick(board: FakeBoard) -> None:
    board.speed_clock.stuck = False


def _over_current(board: FakeBoard) -> None:
    board.over_current[3] += 7


def _throttle(board: FakeBoard) -> None:
    board.throttle(True)


def _unthrottle(board: FakeBoard) -> None:
    board.throttle(False)


def _narrow(board: FakeBoard) -> None:
    steps = board.speed_clock.steps
    board.speed_clock.caps["another program"] = steps[max(len(steps) // 2 - 1, 0)]


def _unnarrow(board: FakeBoard) -> None:
    board.speed_clock.caps.pop("another program", None)


def _change_mode(board: FakeBoard) -> None:
    board.set_mode((board.mode + 1) % len(board.modes))


def _cpu_off(board: FakeBoard) -> None:
    board.online.discard(max(board.online - {0}, default=0) or -1)


def _stick_meter(board: FakeBoard) -> None:
    board.senses.stuck = True


def _unstick_meter(board: FakeBoard) -> None:
    board.senses.stuck = False


def _nothing(board: FakeBoard) -> None:
    """What the board does by itself while the fault is active."""


def _user(board: FakeBoard) -> None:
    board.files.write_error = errno.EACCES


def _container(board: FakeBoard) -> None:
    board.files.write_error = errno.EROFS


def _root(board: FakeBoard) -> None:
    board.files.write_error = None


def _reboot(board: FakeBoard) -> None:
    board.reboot()


_NOT_APPLIED = ("clock_not_applied",)
_CUT = ("throttled", "clock_not_applied")
_METER = ("crashed",)

FAULTS: Mapping[str, Kind] = MappingProxyType(
    {
        "clocks-reset": Kind(
            "another program puts all limits of the clocks back to their defaults", _reset_clocks, None, _NOT_APPLIED
        ),
        "clock-narrowed": Kind("a cap comes down on the clock of what trains", _narrow, _unnarrow, _CUT, may_pass=True),
        "clock-slow": Kind("the clock runs 10 % below its step, its limits unchanged", _slow, _not_slow, _CUT),
        "clock-stuck": Kind(
            "the clock falls to its lowest step, its limits unchanged", _stick, _unstick, _CUT, may_pass=True
        ),
        "over-current": Kind("oc3_event_cnt grows by 7", _over_current, None, ("throttled",)),
        "throttle-alert": Kind("a cooling device is at 1, and the clock comes down", _throttle, _unthrottle, _CUT),
        "over-temperature": Kind("the board becomes 8 C hotter a second, and throttles at 99 C", _nothing, None, _CUT),
        "mode-changed": Kind("another power mode is chosen", _change_mode, None, _NOT_APPLIED),
        "cpu-offline": Kind("the last CPU is switched off", _cpu_off, None, _NOT_APPLIED),
        "swap": Kind("100 MiB a second go into swap, half comes back", _nothing, None, ("oom", "throttled")),
        "oom-killed": Kind("the kernel kills the trainer: memory is short", *_fate("killed"), ("oom",)),
        "oom-assert": Kind("torch's internal assert in CUDACachingAllocator.cpp", *_fate("assert"), ("oom",)),
        "oom-nvmap": Kind("NvMap refuses memory with error 12, and the trainer ends", *_fate("nvmap"), ("oom",)),
        "trainer-crash": Kind("the trainer ends by SIGSEGV", *_fate("crashed"), ("crashed",)),
        "trainer-hang": Kind("the trainer says nothing any more", *_fate("hangs"), ("timeout",)),
        "slow-start": Kind("the first step takes 90 s longer", _nothing, None, may_pass=True),
        "meter-dead": Kind("the meter's total shows 0 from now on", *_text("power", "0"), _METER),
        "meter-missing": Kind("the file of the total vanishes", *_error("power", errno.ENOENT), _METER),
        "meter-unreadable": Kind("the bus of the meter fails (EIO)", *_error("power", errno.EIO), _METER),
        "meter-empty": Kind("the file of the total is empty", *_text("power", ""), _METER),
        "meter-garbage": Kind("the file of the total holds no number", *_text("power", "4.9e1 W?"), _METER),
        "meter-stuck": Kind("the meter shows what it shows now for ever", _stick_meter, _unstick_meter, may_pass=True),
        "meter-no-label": Kind("the label of the total is missing", *_error("label", errno.ENOENT), may_pass=True),
        "no-permission": Kind("writes end with EACCES, as for a user", _user, _root, may_pass=True),
        "read-only": Kind("writes end with EROFS, as in a container", _container, _root, may_pass=True),
        "lost": Kind(
            "the board reboots: the agent is gone, clocks are reset, the boot id is another", _reboot, None, ("oom",)
        ),
    }
)
"""By name."""
