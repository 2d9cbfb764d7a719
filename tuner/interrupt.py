"""What Ctrl-C does to a study: once, finish the burst and stop; twice, abort the burst."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol, Self


class Stoppable(Protocol):
    """What can be interrupted: a study."""

    def request_stop(self) -> None:
        """Finish the burst that runs, then end."""

    def abort(self) -> None:
        """End the burst that runs, then end."""


class Interrupts:
    """While entered, SIGINT asks the watched study to stop after its burst; a second one, SIGTERM and SIGHUP abort it.

    To be entered before anything slow is imported: an interruption before there is a study is kept for it, a second one
    then raises KeyboardInterrupt.

    Args:
        say: Tells the user what an interruption does.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._study: Stoppable | None = None
        self._presses = 0
        self._previous: dict[int, Any] = {}

    def watch(self, study: Stoppable) -> None:
        """Interruptions, those before this call too, are for `study` from now on."""
        self._study = study
        if self._presses:
            study.request_stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._presses += 1 if number == signal.SIGINT else 2
        if self._presses == 1:
            self._say("stopping after this burst; Ctrl-C again aborts it")
            if self._study is not None:
                self._study.request_stop()
        elif self._study is not None:
            self._study.abort()
        else:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
