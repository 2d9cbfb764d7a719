"""When the faults of a fake board begin and end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from devices.errors import InputError
from devices.fake.faults import Fault

if TYPE_CHECKING:
    from devices.fake.board import FakeBoard


def parse(faults: Iterable[Fault | str]) -> list[Fault]:
    """Faults, or their texts.

    Raises:
        InputError: there is no such fault, or it cannot be there from the beginning.
    """
    found = [Fault.parse(fault) if isinstance(fault, str) else fault for fault in faults]
    for fault in found:
        if fault.burst == 0 and not fault.kind().lasts:
            raise InputError(f"{fault.name} happens in a burst, from 1 on", hint=f"{fault.name}@1")
    return found


class Schedule:
    """The faults of one board.

    Attributes:
        active: Those that have begun and not ended, each with the moment it began.
    """

    def __init__(self, board: FakeBoard, faults: Sequence[Fault]) -> None:
        self._board = board
        self._faults = faults
        self._due: list[tuple[float, Fault]] = []
        self._next_s = math.inf
        self.active: dict[Fault, float] = {}

    def begin_board(self, now_s: float) -> None:
        """What is so from the beginning."""
        for fault in self._faults:
            if fault.burst == 0:
                self._begin(fault, now_s)

    def begin_burst(self, burst: int, now_s: float) -> None:
        """What shall happen in this burst is due from now on."""
        self._due = [(now_s + fault.at_s, fault) for fault in self._faults if fault.hits(burst)]
        self._find_next()

    def end_burst(self) -> None:
        """Put right what was wrong in the burst alone."""
        self._due, self._next_s = [], math.inf
        for fault in [fault for fault in self.active if fault.burst > 0]:
            del self.active[fault]
            end = fault.kind().end
            if end is not None:
                end(self._board)

    def advance(self, now_s: float) -> None:
        """Make happen what is due."""
        if now_s < self._next_s:
            return
        for moment_s, fault in [due for due in self._due if due[0] <= now_s]:
            self._due.remove((moment_s, fault))
            self._begin(fault, moment_s)
        self._find_next()

    def strikes(self, name: str, burst: int) -> bool:
        """Whether a fault of that name belongs to this burst, whenever it begins there."""
        return any(fault.name == name and (fault.burst == 0 or fault.hits(burst)) for fault in self._faults)

    def since_s(self, name: str, now_s: float) -> float | None:
        """Seconds since a fault of that name began; None where none is active."""
        began_s = [moment_s for fault, moment_s in self.active.items() if fault.name == name]
        return now_s - min(began_s) if began_s else None

    def _begin(self, fault: Fault, moment_s: float) -> None:
        self.active[fault] = moment_s
        self._board.change(lambda: fault.kind().begin(self._board))

    def _find_next(self) -> None:
        self._next_s = min((moment_s for moment_s, _ in self._due), default=math.inf)
