"""A fake board as the machine that `tuner.apply` finds itself on."""

from __future__ import annotations

from typing import Any

import pytest

from devices.fake.board import FakeBoard
from devices.fake.link import InProcessLink
from devices.fake.turns import TurnClock
from devices.hold import Hold
from tuner import applied
from tuner.callbacks import guard

FOUND_ON: dict[str, Any] = {
    "device": "jetson-orin-nano",
    "setting": {"gpu_freq_mhz": 306, "batch_size": 8},
    "effective_batch": 16,
    "reference": {"batch": 16, "learning_rate": 0.1, "optimizer": "SGD"},
    "cap": {"watts": 7.0, "statistic": "p95"},
}
"""Changes that make the example a frozen config of that board, whose idle power is above 3 W."""


def stand_on(monkeypatch: pytest.MonkeyPatch, *faults: str, model: str = "jetson-orin-nano") -> FakeBoard:
    """Have this machine be a fake board, with its time."""
    board = FakeBoard(model, clock=TurnClock(), faults=faults)
    monkeypatch.setattr(applied, "Hold", lambda name, access: Hold(name, access, InProcessLink(board)))
    monkeypatch.setattr(applied, "board_here", lambda name, access: board.catalog.name)
    monkeypatch.setattr(applied, "monotonic", board.clock.monotonic)
    monkeypatch.setattr(guard, "monotonic", board.clock.monotonic)
    return board
