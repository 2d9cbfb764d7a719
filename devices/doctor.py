"""What a machine is as a device, and what is wrong with it, asked of an agent there."""

from __future__ import annotations

from typing import Any

from devices.client import AgentClient
from devices.link import LocalLink


def examine(
    root: str = "/", *, device: str | None = None, python: str | None = None, trainer: bool = True
) -> dict[str, Any]:
    """The doctor's report: model, module, jetpack, source, knobs, meters, held_fixed, problems, notes, trainer; values
    of now.

    Args:
        root: Of the board's files.
        device: `nvidia` for the GPU of this machine, else the machine.
        python: The Python that trains.
        trainer: Whether to start it, which takes seconds: whether its torch works and sees the GPU.

    Raises:
        DeviceError: no agent can be started.
    """
    agent = AgentClient(LocalLink(root=root), "this machine")
    try:
        report: dict[str, Any] = agent.ask("doctor", device=device, trainer=trainer, python=python)["report"]
    finally:
        agent.close()
    return report


def recover(root: str = "/") -> list[str]:
    """Put back what an agent that was killed left behind; the files that hold again what was found.

    Raises:
        DeviceError: a value could not be put back, or an agent still tunes the board.
    """
    agent = AgentClient(LocalLink(root=root), "this machine")
    try:
        restored: list[str] = agent.ask("recover")["restored"]
    finally:
        agent.close()
    return restored
