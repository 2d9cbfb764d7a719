"""The agent's own code on a fake board, all in one process: the trainer is a thread, and no guardian is started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from devices.agent.boards import open_board
from devices.agent.bursts import BurstRun
from devices.agent.channel import Channel
from devices.agent.hands import Hands
from devices.agent.supervisor import Supervisor
from devices.device import BurstPlan, WorkloadSpec
from devices.fake.board import FakeBoard
from devices.fake.sysfs import FakeSysFs
from devices.fake.threads import starter
from devices.measurement import Measurement


class Rig:
    """An agent and its board. Made by `rig`."""

    def __init__(self, board: FakeBoard, workload: WorkloadSpec) -> None:
        self.fake = board
        self.sysfs = FakeSysFs(board)
        self.workload = workload
        read, self._write = os.pipe()
        self._host = Channel(read, os.open(os.devnull, os.O_WRONLY), board.clock)
        self.supervisor = Supervisor(self._host, board.clock, self.sysfs, lambda: None)
        self.board = open_board(board.catalog.name, self.sysfs, board.clock)
        self.supervisor.launch = starter(board)
        self.supervisor.device = self.board.torch_device
        self.hands = Hands(self.board, board.clock)
        self.events: list[dict[str, Any]] = []

    def burst(self, setting: Mapping[str, float], plan: BurstPlan | None = None) -> Measurement:
        """A burst through the agent's code. Raises AgentError."""
        self.supervisor.begin()
        run = BurstRun(self.supervisor, self.board, self.hands, self.events.append, True)
        plan = plan or BurstPlan()
        return Measurement.from_json(run.run(self.workload.to_json(), dict(setting), plan.to_json()))

    def close(self) -> None:
        self.supervisor.kill()
        self._host.close()
        os.close(self._write)


@contextmanager
def rig(board: FakeBoard, workload: WorkloadSpec | None = None) -> Iterator[Rig]:
    """An agent in this process that tunes `board`; its knobs are not put back at the end."""
    made = Rig(board, workload or WorkloadSpec("resnet18"))
    try:
        yield made
    finally:
        made.close()
