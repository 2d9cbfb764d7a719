"""What a power meter is to the agent: channels with names, one of them (or a stated sum) the total."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple


class MeterFault(Exception):  # noqa: N818  # said of the device, as Fault is
    """A meter that does not answer, or answers what cannot be (0 W, no number). The text is a reason for the user."""


class Channel(NamedTuple):
    """One thing a meter reads.

    Attributes:
        name: The rail as its label says (`VDD_IN`).
        read_w: Watts now. Raises MeterFault.
        is_total: Whether it is the power of the whole module, or of all that can be metered.
        resolution_w: The step of its readings, watts; None: not known, other than by their digits.
    """

    name: str
    read_w: Callable[[], float]
    is_total: bool = False
    resolution_w: Optional[float] = None


class EnergyCounter:
    """A counter of the total's joules, more exact than power samples over a few seconds."""

    def read_j(self) -> float:
        """Joules since some moment. Raises MeterFault."""
        raise NotImplementedError

    @classmethod
    def used_j(cls, begin: Tuple[float, float], end: Tuple[float, float]) -> float:
        """Joules between two readings, each with its time: (seconds, joules). Raises MeterFault: it cannot be told."""
        raise NotImplementedError


class Meter:
    """The total that a cap holds on, and the rails inside it.

    Args:
        name: What the watts are of, for the user: `VDD_IN (module input)`.
        channels: All rails. `total` names those that are summed: one, or several of which none contains another.
        total: Names of the channels whose sum is the total.
        statistics: What it gives: a counter of energy gives only the mean.
        lag_s: Time constant of its readings, seconds; 0 for a counter.
        note: A sentence the user should know (what is summed, what is not in it), or None.

    Attributes:
        moves: Whether the total ever read something else than at first.
    """

    def __init__(
        self,
        name: str,
        channels: List[Channel],
        total: List[str],
        statistics: Tuple[str, ...] = ("p95", "peak", "mean"),
        lag_s: float = 0.0,
        note: Optional[str] = None,
    ) -> None:
        self.name = name
        self.channels = channels
        self.total = total
        self.statistics = statistics
        self.lag_s = lag_s
        self.note = note
        self.moves = False
        self._first_w: Optional[float] = None

    energy: Optional[EnergyCounter] = None

    def read(self) -> Tuple[float, Dict[str, float]]:
        """Watts of the total, and of every rail that can be read now.

        Raises:
            MeterFault: a channel of the total cannot be read, or the total is 0 W or less.
        """
        rails: Dict[str, float] = {}
        for channel in self.channels:
            try:
                rails[channel.name] = channel.read_w()
            except MeterFault:
                if channel.name in self.total:
                    raise
        watts = sum(rails[name] for name in self.total)
        if not watts > 0:
            raise MeterFault("{} reads {:g} W: no meter of a running machine does".format(self.name, watts))
        if self._first_w is None:
            self._first_w = watts
        self.moves = self.moves or watts != self._first_w
        return watts, rails

    @property
    def resolution_w(self) -> Optional[float]:
        """The step of the total's readings, watts: of a sum the coarsest of its rails; None: not known, other than by
        their digits."""
        steps_w = [channel.resolution_w for channel in self.channels if channel.name in self.total]
        known_w = [step_w for step_w in steps_w if step_w is not None]
        return max(known_w) if known_w and len(known_w) == len(steps_w) else None

    def close(self) -> None:
        """Give back what the meter holds: a child process. May be called again; most meters hold nothing."""

    def describe(self) -> List[Dict[str, Any]]:
        """For `doctor`: rail, watts now (None where it cannot be read), is_total."""
        found = []
        for channel in self.channels:
            try:
                watts: Optional[float] = channel.read_w()
            except MeterFault:
                watts = None
            found.append({"rail": channel.name, "watts": watts, "is_total": [channel.name] == self.total})
        return found
