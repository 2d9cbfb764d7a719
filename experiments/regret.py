"""How good recommended settings truly are: `python -m experiments.regret [emulated | replayed]`.

Emulated studies are judged by the noise-free physics behind them, replayed ones (without noise) by the recorded table.
Regret is 1 - throughput / best throughput within the cap.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from devices.catalog import find_board
from devices.device import WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.importers import import_zeus
from devices.replay import ReplayDevice
from tuner.study import Study

CAPS_W = (6.6, 7.0, 8.0, 10.0)
SHARES = (0.25, 0.5, 0.75)  # of a table's range of mean power
TABLES = {
    "summary_power_v100.csv": (
        "librispeech/deepspeech2/adamw",
        "cifar100/shufflenetv2/adadelta",
        "imagenet/resnet50/adadelta",
        "squad/bert_base_uncased/adamw",
        "sentiment140/bert_base_uncased/adamw",
    ),
    "summary_power_a40.csv": ("cifar100/shufflenetv2/adadelta",),
}

Row = tuple[str, float | None, float | None, int]
"""What was tuned, regret, true power over the cap (both None where nothing was recommended), bursts."""


def emulated(seeds: int) -> Iterator[Row]:
    """Studies of the emulated Orin Nano."""
    workload, board = WorkloadSpec("resnet18"), find_board("jetson-orin")
    if board is None:
        raise LookupError("the catalog has no jetson-orin")
    for cap_w in CAPS_W:
        for seed in range(seeds):
            with Study("jetson-orin", workload, cap_w=cap_w, seed=seed) as study:
                outcome = study.run()
            physics = EmulatedDevice(board, preset=outcome.info.held_fixed["preset"])
            truths = [physics.predict(setting, workload) for setting in outcome.problem.space.settings]
            within = [t.throughput or 0 for t in truths if t.power_p95_w is not None and t.power_p95_w <= cap_w]
            recommended = outcome.verdict.recommended
            if recommended is None:
                yield f"{cap_w} W", None, None, study.bursts_made
                continue
            true = physics.predict(recommended.setting, workload)
            regret = 1 - (true.throughput or 0) / max(within)
            yield f"{cap_w} W", regret, (true.power_p95_w or 0) / cap_w, study.bursts_made


def replayed(seeds: int) -> Iterator[Row]:
    """Replays of the public tables that `TUNER_DATA` holds."""
    folder = Path(os.environ.get("TUNER_DATA", "../shared/data"), "zeus-nsdi23")
    for file, workloads in TABLES.items():
        for workload in workloads:
            profile = import_zeus(folder / file, workload)
            low, high = profile.power_range_w("mean") or (0.0, 0.0)
            for share in SHARES:
                cap_w = low + share * (high - low)
                best = profile.best_feasible(cap_w, "mean")
                for seed in range(seeds):
                    with Study(ReplayDevice(profile), workload, cap_w=cap_w, seed=seed) as study:
                        recommended = study.run().verdict.recommended
                    name = f"{Path(file).stem} {workload} {cap_w:.1f} W"
                    if recommended is None or best is None or recommended.power is None:
                        yield name, None, None, study.bursts_made
                        continue
                    regret = 1 - recommended.goal.value / best.throughput
                    yield name, regret, recommended.power.value / cap_w, study.bursts_made


def main(what: str) -> None:
    """Print every study and a summary."""
    rows = []
    for row in replayed(4) if what == "replayed" else emulated(6):
        rows.append(row)
        name, regret, share, bursts = row
        text = "nothing recommended"
        if regret is not None and share is not None:
            text = f"regret {regret:.3f}, power {share:.3f} of the cap"
        sys.stdout.write(f"{name}: {text}, {bursts} bursts\n")
    regrets = [regret for _, regret, _, _ in rows if regret is not None]
    above = sum(share > 1 for _, _, share, _ in rows if share is not None)
    near = sum(regret <= 0.02 for regret in regrets)
    sys.stdout.write(
        f"{len(rows)} studies, {len(rows) - len(regrets)} without recommendation; within 2 %: {near}; truly above the "
        f"cap: {above}; regret {statistics.mean(regrets):.4f} in the mean, {max(regrets):.4f} at most; "
        f"{statistics.mean(bursts for *_, bursts in rows):.1f} bursts in the mean\n"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "emulated")
