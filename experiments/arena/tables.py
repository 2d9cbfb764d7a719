"""The profiles that strategies meet in: public traces, and recorded emulations."""

from __future__ import annotations

import os
from pathlib import Path

from devices.catalog import find_board
from devices.device import WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.importers import import_zeus
from devices.profile import Profile, ProfileMetadata, ProfileRow, write_profile
from tuner.arena import Table
from tuner.goal import find_goal
from tuner.target import choose_preset

ZEUS = {
    "v100": (
        "cifar100/shufflenetv2/adadelta",
        "cifar100/shufflenetv2/adam",
        "imagenet/resnet50/adadelta",
        "librispeech/deepspeech2/adamw",
        "movielens-1m/ncf/adam",
        "sentiment140/bert_base_uncased/adamw",
        "squad/bert_base_uncased/adamw",
    ),
    "a40": ("cifar100/shufflenetv2/adadelta",),
}
QUICK_ZEUS = {"v100": ("imagenet/resnet50/adadelta",)}
BOARD = "jetson-orin-nano"
WORKLOADS = (
    WorkloadSpec("digits-cnn"),
    WorkloadSpec("mobilenetv2", {"image_size": 32}),
    WorkloadSpec("char-transformer"),
)


def public_tables(*, quick: bool) -> tuple[Table, ...]:
    """The Zeus traces that `TUNER_DATA` holds; none where it holds no such folder."""
    folder = Path(os.environ.get("TUNER_DATA", "../shared/data"), "zeus-nsdi23")
    if not folder.is_dir():
        return ()
    return tuple(
        Table(f"{gpu} {workload.rpartition('/')[0]}", import_zeus(folder / f"summary_power_{gpu}.csv", workload))
        for gpu, workloads in (QUICK_ZEUS if quick else ZEUS).items()
        for workload in workloads
    )


def emulated_tables(folder: Path, *, quick: bool) -> tuple[Table, ...]:
    """The emulated board with each workload, recorded without noise into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for workload in WORKLOADS[: 1 if quick else None]:
        profile = record_emulation(workload)
        write_profile(profile, folder / f"{BOARD}-{workload.spec}.csv")
        tables.append(Table(f"{BOARD} {workload.spec}", profile))
    return tuple(tables)


def record_emulation(workload: WorkloadSpec) -> Profile:
    """What the model of the board says of every setting of its GPU clock and batch size, on average.

    Raises:
        LookupError: the catalog has no such board.
    """
    board = find_board(BOARD)
    if board is None:
        raise LookupError(f"the catalog has no {BOARD}")
    preset = choose_preset(board, workload, find_goal("throughput"), None).name
    device = EmulatedDevice(board, preset=preset)
    info = device.describe()
    arguments = "".join(f" {name}={value}" for name, value in workload.args.items())
    settings = list(info.enumerate_settings())
    return Profile(
        ProfileMetadata(
            device=info.name,
            workload=workload.spec + arguments,
            origin="the emulation of tune, without noise",
            provenance="emulated",
            default_setting=info.default_setting,
            extra={name: str(value) for name, value in info.held_fixed.items()},
        ),
        tuple(knob.name for knob in info.knobs),
        tuple(ProfileRow.from_measurement(setting, device.predict(setting, workload)) for setting in settings),
    )
