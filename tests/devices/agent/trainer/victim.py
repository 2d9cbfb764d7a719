"""A training to be killed: makes a step for every line on its standard input, and prints its result.

python -m tests.devices.agent.trainer.victim FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from devices.agent.trainer import training

from .tiny import CPU, Tiny, plan_json


def main() -> None:
    torch.set_num_threads(1)
    training.CHECKPOINT_S = 0.0
    folder = Path(sys.argv[1])
    plan = plan_json(folder / "checkpoints", steps=40, resume=True, out_dir=str(folder / "out"))

    def should_stop() -> bool:
        sys.stdin.readline()  # once the input has ended, it does not wait
        return False

    result = training.train(Tiny(dropout=0.2, items=True), plan, CPU, lambda event: None, should_stop)
    print(json.dumps(result))  # noqa: T201


if __name__ == "__main__":
    main()
