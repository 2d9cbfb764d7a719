"""What Ctrl-C does to a study: once, finish the burst and stop; twice, abort the burst."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from tuner.study import Study


@contextlib.contextmanager
def interruptible(study: Study, say: Callable[[str], None]) -> Iterator[None]:
    """While entered, SIGINT asks `study` to stop after its burst, a second one aborts the burst; SIGTERM aborts."""
    presses = 0

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            say("stopping after this burst; Ctrl-C again aborts it")
            study.request_stop()
        else:
            study.abort()

    def on_terminate(number: int, frame: FrameType | None) -> None:
        study.abort()

    previous = {
        signal.SIGINT: signal.signal(signal.SIGINT, on_interrupt),
        signal.SIGTERM: signal.signal(signal.SIGTERM, on_terminate),
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
