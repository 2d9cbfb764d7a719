"""FakeSysFs: a fake board's files in this process, for the agent's own code."""

from __future__ import annotations

import contextlib

from devices.agent.sysfs import MOST_BYTES, SysFs, plain_text, too_long
from devices.fake.board import FakeBoard


class FakeSysFs(SysFs):
    """The files of a board. Never `real`.

    Args:
        board: The board.
    """

    def __init__(self, board: FakeBoard) -> None:
        super().__init__("/.fake-board")  # a root that no file of the machine has
        self.board = board

    @property
    def real(self) -> bool:
        return False

    @property
    def shared(self) -> bool:
        return False

    def path(self, name: str) -> str:
        return self.root + self.board.files.canonical(name)

    def read(self, name: str) -> str:
        text = self.board.read(name)
        if len(text) > MOST_BYTES:
            raise too_long(name)
        return plain_text(text)

    def write(self, name: str, text: str) -> None:
        self.board.write(name, text)

    def replace(self, name: str, text: str) -> None:
        with self.board.lock:
            self.board.files.put(name, text)

    def remove(self, name: str) -> None:
        with self.board.lock, contextlib.suppress(OSError):
            self.board.files.remove(name)

    def list(self, name: str) -> list[str]:
        with self.board.lock:
            try:
                return self.board.files.names(name)
            except OSError:
                return []

    def exists(self, name: str) -> bool:
        with self.board.lock:
            return self.board.files.kind(self.canonical(name)) is not None

    def canonical(self, name: str) -> str:
        return self.board.files.canonical(name)

    def refusal(self, name: str) -> int | None:
        with self.board.lock:
            return self.board.files.refusal(name)
