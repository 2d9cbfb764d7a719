"""ThreadTrainer: the fake board's trainer as a thread, in place of a process, for campaigns of many studies."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable

from devices.agent.channel import Channel, Message
from devices.agent.clock import Clock
from devices.agent.failures import describe_end, is_out_of_memory, was_killed
from devices.agent.trainer_process import TrainerProcess
from devices.fake.board import FakeBoard
from devices.fake.sysfs import FakeSysFs
from devices.fake.trainer import Ended, Trainer

_pids = itertools.count(1 << 30)  # no process has such a number, so that whoever kills it hits nothing
_JOIN_S = 5.0


class ThreadTrainer(TrainerProcess):
    """What `TrainerProcess` is, without a process: `starter(board)` makes them for a supervisor.

    Args:
        board: The board it trains on.
        clock: The agent's.
    """

    def __init__(self, board: FakeBoard, clock: Clock) -> None:
        self._requests = 0
        self.pid = next(_pids)
        self._board = board
        from_agent, to_trainer = os.pipe()
        from_trainer, to_agent = os.pipe()
        self.channel = Channel(from_trainer, to_trainer, clock)
        self._far = Channel(from_agent, to_agent, board.clock)
        self._ended: Ended | None = None
        self._thread = threading.Thread(target=self._live, name=f"trainer {self.pid}", daemon=True)
        self._thread.start()

    @property
    def gone(self) -> bool:
        return self.channel.closed or not self._thread.is_alive()

    def failure(self) -> dict[str, str]:
        self._thread.join(_JOIN_S)
        ended = self._ended or Ended(0)
        if was_killed(ended.returncode):
            return {"kind": "oom", "message": "the system killed the trainer, as it does when memory runs out"}
        kind = "oom" if is_out_of_memory(ended.words) else "crashed"
        return {"kind": kind, "message": f"the trainer {describe_end(ended.returncode, ended.words)}"}

    def kill(self) -> None:
        self.channel.close()
        self._thread.join(_JOIN_S)

    def receive(self) -> Message | None:
        return None if self.channel.closed else super().receive()

    def _live(self) -> None:
        sysfs = FakeSysFs(self._board)
        try:
            Trainer(sysfs, self._board.clock, self._far).run()
        except Ended as ended:
            self._ended = ended
        finally:
            self._board.forsake()
            self._far.close()


def starter(board: FakeBoard) -> Callable[[list[str], Clock], ThreadTrainer]:
    """What `Supervisor.launch` is for a board in this process."""
    return lambda command, clock: ThreadTrainer(board, clock)
