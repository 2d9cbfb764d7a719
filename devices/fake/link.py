"""An agent in this process, on a fake board: for campaigns of many studies, where no process and no mount is wanted."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

from devices.agent.channel import Channel
from devices.agent.clock import Clock
from devices.agent.session import Session
from devices.cost import count_step
from devices.device import WorkloadSpec
from devices.fake.board import FakeBoard
from devices.fake.sysfs import FakeSysFs
from devices.fake.threads import ThreadTrainer
from devices.fake.turns import TurnClock
from devices.remote import AgentDevice

_CLOSE_S = 5.0


class InProcessLink:
    """An agent as a thread. It has no guardian, which is for processes that are killed; a reboot of the board ends it.

    Args:
        board: The board.
    """

    def __init__(self, board: FakeBoard) -> None:
        from_host, to_agent = os.pipe()
        from_agent, to_host = os.pipe()
        self.pid = os.getpid()
        self.channel = Channel(from_agent, to_agent, board.clock)
        self._far = Channel(from_host, to_host, board.clock)

        def launch(command: list[str], clock: Clock) -> ThreadTrainer:
            return ThreadTrainer(board, clock)

        self._session = Session(self._far, board.clock, FakeSysFs(board), launch=launch)
        self._board = board
        self._thread = threading.Thread(target=self._serve, name="agent", daemon=True)
        self._here = threading.Event()
        board.on_reboot.append(self._die)
        self._thread.start()
        self._here.wait()

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        self.channel.close()
        self._thread.join(_CLOSE_S)
        with contextlib.suppress(ValueError):
            self._board.on_reboot.remove(self._die)

    def _serve(self) -> None:
        if isinstance(self._board.clock, TurnClock):
            self._board.clock.take_part()  # before the host waits for an answer, and time passes
        self._here.set()
        try:
            self._session.run()
        finally:
            self._far.close()

    def _die(self) -> None:
        """The agent has gone with the board: nobody hears what it says from now on, and it puts nothing back."""
        self._far.closed = True
        self._session.forget()


def fake_device(board: FakeBoard, workload: WorkloadSpec, *, preset: str | None = None, **options: Any) -> AgentDevice:
    """A fake board as a device: the agent's own code, in this process.

    Args:
        board: The board.
        workload: What it trains.
        preset: What a power mode pins, as in `devices.device.open_device`.
        options: Of AgentDevice.

    Raises:
        InputError: unknown preset, knob, value or workload.
    """
    count_step(workload)  # takes real seconds, which are minutes of the board's time
    pins = board.catalog.pins(preset) if preset is not None else None
    return AgentDevice(board.catalog.name, workload=workload, link=InProcessLink(board), pins=pins, **options)
