"""What the trainer of a fake board does on it, as board and trainer tell each other: one JSON object in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from devices.cost import StepCost, count_step, workload_info
from devices.device import WorkloadSpec
from devices.errors import InputError

WORK = "/.fake-board-work"
"""The trainer writes what it begins (`{"do": "hello" | "load" | "burst" | "idle", ...}`) and reads how it fares."""
IDLE, START, TRAIN = "idle", "start", "train"

FATES = ("killed", "assert", "nvmap", "crashed", "hangs")
"""How a trainer may end. The first three are the ways in which memory runs out: by the kernel's hand, with torch's
internal assert, with an error of NvMap."""


@dataclass
class Work:
    """A burst, or nothing.

    Attributes:
        phase: `idle`, `start` (before the first step), `train`.
        cost: Of a step of the workload.
        began_s: When the burst was asked for, by the board's clock.
        start_s: How long it takes before the first step.
        fate: One of FATES, once that is to happen.
        needed_mib: Memory it needs, with everything else on the board.
        answer: What the last request is answered with, until the next.
    """

    phase: str = IDLE
    cost: StepCost | None = None
    micro_batch: int = 1
    accumulation: int = 1
    began_s: float = 0.0
    start_s: float = 0.0
    fate: str | None = None
    needed_mib: float = 0.0
    answer: dict[str, Any] = field(default_factory=dict)


def load(workload: dict[str, Any]) -> dict[str, Any]:
    """What a trainer answers to `load`: an `info`, or an `error` of the protocol. Takes seconds the first time."""
    try:
        spec = _spec(workload)
        count_step(spec)
        info = workload_info(spec)
    except InputError as error:
        return {"error": {"kind": "input", "message": error.message, "hint": error.hint}}
    return {"info": asdict(info)}


def prepare(text: str) -> dict[str, Any]:
    """A request of the trainer, with what takes long: its workload is counted."""
    request: dict[str, Any] = json.loads(text)
    if request["do"] == "load":
        request["answer"] = load(request["workload"])
    elif request["do"] == "burst":
        try:
            request["cost"] = count_step(_spec(request["workload"]))
        except InputError:
            return {"do": "load", "answer": load(request["workload"])}
    return request


def _spec(workload: dict[str, Any]) -> WorkloadSpec:
    return WorkloadSpec(workload["spec"], workload.get("args") or {}, workload.get("data"))
