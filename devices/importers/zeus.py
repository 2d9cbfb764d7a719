"""Import of the Zeus traces (NSDI 2023): time and mean power of one epoch by batch size and power limit."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from devices.device import Setting, knob_value
from devices.errors import ProfileError
from devices.importers._table import TableRow, read_table
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow

_COLUMNS = ("dataset", "network", "optimizer", "batch_size", "power_limit", "time_per_epoch", "average_power")
_KEY = ("dataset", "network", "optimizer")
_ORIGIN = (
    "https://github.com/ml-energy/zeus, examples/research_reproducibility/zeus_nsdi23/trace; Jie You, Jae-Won Chung, "
    "Mosharaf Chowdhury, Zeus: Understanding and Optimizing GPU Energy Consumption of DNN Training, USENIX NSDI 2023"
)
_DEFAULT_BATCH = {  # of the simulator published with the traces
    "cifar100": 1024,
    "imagenet": 256,
    "librispeech": 192,
    "movielens-1m": 1024,
    "sentiment140": 128,
    "squad": 32,
}
_DEVICE_NAMES = {"rtx6000": "NVIDIA Quadro RTX 6000"}


def import_zeus(path: str | os.PathLike[str], workload: str | None = None) -> Profile:
    """The profile of one workload of a `summary_power_*.csv`.

    Args:
        path: The file; its name tells the GPU.
        workload: `dataset/network/optimizer`; trailing parts may be left out where what is given names one workload.

    Knobs are `power_limit_w` and `batch_size`; throughput is in epochs/h, and one row is one epoch: `duration_s` its
    time, `energy_j` its energy, `samples` 1 (epoch).

    Raises:
        ProfileError: not such a file, or a workload that is missing, unknown or ambiguous (the hint lists them all).
    """
    table = read_table(path)
    if not table.has(_COLUMNS):
        missing = ", ".join(name for name in _COLUMNS if name not in table.columns)
        hint = "import one of the files summary_power_*.csv"
        raise ProfileError(f"{path} is not a Zeus power table: it lacks {missing}", hint=hint, path=str(path))
    chosen, rows = _select(str(path), table.rows, workload)
    device = _device_name(path)
    records = tuple(_record(row) for row in rows)
    return Profile(
        ProfileMetadata(
            device=device,
            workload=chosen,
            origin=_ORIGIN,
            licence="Apache-2.0",
            throughput_unit="epochs/h",
            default_setting=_default_setting(chosen.split("/")[0], records),
        ),
        ("power_limit_w", "batch_size"),
        records,
    )


def _select(path: str, rows: Sequence[TableRow], workload: str | None) -> tuple[str, list[TableRow]]:
    """The full name of the workload meant and its rows."""
    grouped: dict[tuple[str, ...], list[TableRow]] = {}
    for row in rows:
        grouped.setdefault(tuple(row.text(column) for column in _KEY), []).append(row)
    asked = tuple(workload.split("/")) if workload else ()
    matching = [key for key in grouped if key[: len(asked)] == asked]
    if len(matching) == 1:
        return "/".join(matching[0]), grouped[matching[0]]
    names = sorted("/".join(key) for key in (matching or grouped))
    if not workload:
        what = f"{path} holds {len(grouped)} workloads"
    elif matching:
        what = f"'{workload}' names {len(matching)} workloads of {path}"
    else:
        what = f"{path} holds no workload '{workload}'"
    raise ProfileError(what, hint=f"use --workload with one of {', '.join(names)}", path=path)


def _device_name(path: str | os.PathLike[str]) -> str | None:
    match = re.fullmatch(r"summary_power_(\w+)\.csv", Path(path).name, re.IGNORECASE)
    if match is None:
        return None
    gpu = match[1].lower()
    return _DEVICE_NAMES.get(gpu, f"NVIDIA {gpu.upper()}")


def _record(row: TableRow) -> ProfileRow:
    time_s, power_w = row.number("time_per_epoch"), row.number("average_power")
    return ProfileRow(
        setting={"power_limit_w": knob_value(row.number("power_limit")), "batch_size": row.whole("batch_size")},
        status=Status.OK,
        throughput=3600 / time_s,
        power_mean_w=power_w,
        energy_j=time_s * power_w,
        duration_s=time_s,
        samples=1.0,
    )


def _default_setting(dataset: str, records: Sequence[ProfileRow]) -> Setting | None:
    """The simulator's batch size (the largest, where this GPU does not hold it) at the highest limit it was run at."""
    if dataset not in _DEFAULT_BATCH:
        return None
    batches = {record.setting["batch_size"] for record in records}
    batch = _DEFAULT_BATCH[dataset] if _DEFAULT_BATCH[dataset] in batches else max(batches)
    limits = [r.setting["power_limit_w"] for r in records if r.setting["batch_size"] == batch]
    return {"power_limit_w": max(limits), "batch_size": batch}
