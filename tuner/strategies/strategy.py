"""The Strategy seam: proposes the next settings from the trials so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from devices.device import Setting
from tuner.problem import Problem
from tuner.trial import Trial


@dataclass(frozen=True)
class Suggestion:
    """What a strategy answers.

    Attributes:
        settings: The settings to measure next; empty means converged.
        state: What the strategy must be given back next time, or None. The study commits it in the same transaction as
            the trials, so a killed study goes on as if nothing had happened.
    """

    settings: tuple[Setting, ...]
    state: str | None = None

    @property
    def converged(self) -> bool:
        """Whether the strategy has nothing more to try."""
        return not self.settings


class Strategy(ABC):
    """A pure function of (problem, trials, state): equal arguments give equal suggestions, whatever was called before.

    `state` is None at first and then what the latest suggestion returned; a strategy that needs none always returns
    None. Trials come in the order of their index; pending ones (`Trial.pending`) are being measured and must not be
    proposed again, nor are settings that were measured: the study itself repeats those it is about to recommend. Every
    setting suggested lies in `problem.open_space(trials)`: a batch size that ran out of memory bounds all later ones.
    May take seconds; never blocks on anything else. Holds nothing that must be closed.
    """

    name: str
    variants: ClassVar[Mapping[str, Mapping[str, bool]]] = {}
    """Arguments of the constructor by the suffix that asks for them: `cap-aware:no-mask`. For comparisons."""
    confirms: bool = True
    """Whether the study measures a setting again before it recommends it."""
    repeats: bool = True
    """Whether the study measures a setting again that noise keeps on the edge of the cap."""

    @abstractmethod
    def suggest(self, problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        """Up to `n` settings to measure next, or none: converged.

        Raises:
            UnsupportedError: a problem this strategy cannot serve; the message says why.
        """
