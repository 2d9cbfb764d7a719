"""The agent's hands: knobs are held at a setting and put back, a guardian awake and the journal on disk before."""

from typing import Dict, List, Optional

from .board import Board, Fault
from .clock import Clock
from .failures import AgentError
from .guardian import Guardian
from .journal import MEND, Journal
from .processes import own_program


class Hands:
    """Of one agent on one board. Nothing is written, journalled or started before the first knob is to be held.

    Args:
        board: The board.
        clock: Time.
    """

    def __init__(self, board: Board, clock: Clock) -> None:
        self._board = board
        self._journal = Journal(board.sysfs, clock)
        self._guardian: Optional[Guardian] = None
        self._held: Dict[str, float] = {}
        self._groups: List[int] = []

    def hold(self, setting: Dict[str, float]) -> Optional[Fault]:
        """Hold every knob of the board that a setting names; why it does not hold as read back, or None.

        Raises:
            AgentError: `input`: a knob or value the board does not have. `device`: no right to write, no journal, no
                guardian, or another agent holds the board. The knobs are then as they were found, or will be restored.
        """
        self._board.check(setting)
        knobs = [(knob, setting[knob.name]) for knob in self._board.knobs if knob.name in setting]
        if knobs:
            self._watch_over()
            self._journal.keep([name for knob, _ in knobs for name in knob.files()])
        for knob, value in knobs:
            if self._held.get(knob.name) == value and knob.fault(value, False) is None:
                continue
            self._held[knob.name] = value
            try:
                knob.hold(value)
            except OSError as error:
                text = "{} cannot be set to {:g}: {}".format(knob.name, value, error.strerror or error)
                raise AgentError("device", text, "tune doctor tells what is in the way") from error
        return self.fault(False)

    def fault(self, loaded: bool) -> Optional[Fault]:
        """How a knob differs now from what is held; None where all hold.

        Args:
            loaded: Whether the board works: an idle clock says nothing.
        """
        for knob in self._board.knobs:
            if knob.name in self._held:
                fault = knob.fault(self._held[knob.name], loaded)
                if fault is not None:
                    return fault
        return None

    def note_group(self, pid: int) -> None:
        """A process group that must not outlive the agent."""
        if [pid] != self._groups:
            self._groups = [pid]
            self._journal.note_group(pid)

    def restore(self) -> List[str]:
        """Put everything back and verify it; the files that hold again what was found.

        Raises:
            AgentError: `device`: a value could not be put back; the message names it. The journal stays.
        """
        self._held = {}
        result = self._journal.restore()
        if result.failed:
            raise AgentError("device", "not put back: {}".format("; ".join(result.failed)), MEND)
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None
        return result.names

    def _watch_over(self) -> None:
        """Have a guardian.

        Raises:
            AgentError: it cannot be started.
        """
        if self._guardian is not None or not self._board.sysfs.shared:
            return
        try:
            self._guardian = Guardian(own_program(), self._board.sysfs.root)
        except OSError as error:
            text = "the guardian that puts the board back cannot be started: {}".format(error)
            raise AgentError("device", text, "free memory or processes, then repeat the command") from error
