"""A frozen config to train with, for tests."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

MISSING = object()

FROZEN: dict[str, Any] = {
    "schema": 1,
    "device": "cpu",
    "setting": {"batch_size": 32},
    "context": {},
    "workload": {"spec": "digits-cnn", "args": {}, "data": None, "files_sha256": {}},
    "goal": "throughput",
    "cap": None,
    "reference": {"batch": 64, "learning_rate": 0.1, "optimizer": "SGD"},
    "effective_batch": 64,
    "accumulation_steps": 2,
    "learning_rate": 0.1,
    "seed": 3,
    "source": "measured",
    "study": "cpu-digits-cnn-throughput",
    "created_at": "2025-01-01T00:00:00+00:00",
}
REPLAYED: dict[str, Any] = {
    "device": "Bench GPU",
    "source": "replayed",
    **dict.fromkeys(("reference", "effective_batch", "accumulation_steps", "learning_rate")),
}
EMULATED: dict[str, Any] = {
    "device": "jetson-orin-nano",
    "source": "emulated",
    "cap": {"watts": 7.0, "statistic": "p95"},
}


def frozen(**changes: Any) -> dict[str, Any]:
    """The example with some fields changed (`workload__spec` is the spec of the workload), or left out (`MISSING`)."""
    document = deepcopy(FROZEN)
    for name, value in changes.items():
        *parents, key = name.split("__")
        holder = document
        for parent in parents:
            holder = holder[parent]
        if value is MISSING:
            del holder[key]
        else:
            holder[key] = value
    return document


def write_frozen(file: Path = Path("frozen.json"), /, **changes: Any) -> Path:
    """`frozen` in a file; NaN is written as people's programs write it."""
    file.write_text(json.dumps(frozen(**changes)))
    return file
