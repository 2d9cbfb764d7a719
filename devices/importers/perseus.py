"""Import of the Perseus traces (SOSP 2024): pipeline stages by GPU clock, whole models by a common power limit."""

from __future__ import annotations

import os
import re
from pathlib import Path

from devices.device import knob_value
from devices.errors import ProfileError
from devices.importers._table import Table, TableRow, read_table
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow

_STAGE_COLUMNS = ("stage", "instruction", "frequency", "time", "energy")
_GLOBAL_COLUMNS = ("model_name", "batch_size", "dp", "tp", "pp", "power_limit_0", "time", "energy")
_LOCAL_COLUMN = "heaviest_stage"
_CONFIGURATION = ("partition_method", "batch_size", "dp", "tp", "pp", "microbatch_size", "num_microbatches")
_ORIGIN = (
    "https://github.com/ml-energy/zeus, branch kronos, sosp24_data; Jae-Won Chung, Yile Gu, Insu Jang, Luoxi Meng, "
    "Nikhil Bansal, Mosharaf Chowdhury, Reducing Energy Bloat in Large Model Training, ACM SOSP 2024"
)
_DEVICE_NAMES = {
    "a100_sxm": "NVIDIA A100 SXM",
    "a100": "NVIDIA A100 PCIe",  # the machines of the whole-model runs
    "a40": "NVIDIA A40",
}


def import_perseus(path: str | os.PathLike[str], workload: str | None = None) -> Profile:
    """The profile of one model; the format is recognised by the columns of the file.

    A stage profile gives the knob `gpu_freq_mhz` and microbatches/s: one microbatch through all stages, forward and
    backward. A table of common power limits gives the knob `power_limit_w` and iterations/s, with the power of all
    GPUs together.

    Args:
        path: The file; its name tells the GPU, and the model of a stage profile.
        workload: The model, needed where the file holds several.

    Raises:
        ProfileError: not such a file, a table of limits that differ by stage, a workload that is missing or unknown, or
            no frequency with every stage and instruction.
    """
    table = read_table(path)
    if table.has(_STAGE_COLUMNS):
        return _stage_profile(table, workload)
    if _LOCAL_COLUMN in table.columns:
        raise ProfileError(
            f"{path} holds one power limit for each pipeline stage, which are not one knob",
            hint="import the file zeus_global_* instead",
            path=str(path),
        )
    if table.has(_GLOBAL_COLUMNS):
        return _global_limits(table, workload)
    hint = "import one of the files *.stage_profile.csv or zeus_global_*.csv"
    raise ProfileError(f"{path} is neither a stage profile nor a table of power limits", hint=hint, path=str(path))


def _stage_profile(table: Table, workload: str | None) -> Profile:
    name = re.fullmatch(r"(?P<model>[^+]+)\+(?P<gpu>\w+?)_(?P<dtype>[a-z]+\d+)(\.stage_profile)?\.csv", _name(table))
    model = name["model"] if name else workload
    if name and workload not in (None, name["model"]):
        hint = f"use --workload {name['model']}, or leave it out"
        raise ProfileError(f"{table.path} holds no workload '{workload}'", hint=hint, path=table.path)
    cells: dict[float, dict[tuple[str, str], tuple[float, float]]] = {}
    for row in table.rows:
        part = (row.text("stage"), row.text("instruction"))
        parts = cells.setdefault(knob_value(row.number("frequency")), {})
        if part in parts:
            message = f"{table.path} line {row.line}: stage {part[0]} {part[1]} appears twice at this frequency"
            raise ProfileError(message, hint="remove one of the two rows", path=table.path, line=row.line)
        parts[part] = (row.number("time"), row.number("energy"))
    expected = {part for parts in cells.values() for part in parts}
    rows = []
    for frequency in sorted(cells):
        if set(cells[frequency]) == expected:
            time_s, energy_j = (sum(values) for values in zip(*cells[frequency].values(), strict=True))
            rows.append(_record("gpu_freq_mhz", frequency, time_s, energy_j))
    if not rows:
        message = f"{table.path} has no frequency with all {len(expected)} pairs of stage and instruction"
        raise ProfileError(message, hint="fetch the file again", path=table.path)
    extra = {"precision": name["dtype"]} if name else {}
    incomplete = [f"{frequency} MHz" for frequency in sorted(cells) if set(cells[frequency]) != expected]
    if incomplete:
        extra["left_out"] = f"{', '.join(incomplete)} (not every stage and instruction was recorded)"
    device = _DEVICE_NAMES.get(name["gpu"].lower(), name["gpu"]) if name else None
    return _profile(device, model, "microbatches/s", "gpu_freq_mhz", rows, extra)


def _global_limits(table: Table, workload: str | None) -> Profile:
    models = sorted({row.text("model_name") for row in table.rows})
    if workload is None and len(models) == 1:
        workload = models[0]
    if workload not in models:
        what = f"holds no workload '{workload}'" if workload else f"holds {len(models)} workloads"
        hint = f"use --workload with one of {', '.join(models)}"
        raise ProfileError(f"{table.path} {what}", hint=hint, path=table.path)
    chosen = [row for row in table.rows if row.text("model_name") == workload]
    described = [name for name in _CONFIGURATION if name in table.columns]
    if len({tuple(row.text(name) for name in described) for row in chosen}) > 1:
        message = f"{table.path} holds '{workload}' in several configurations, which are not one workload"
        raise ProfileError(message, hint=f"keep the rows of one {' / '.join(described)}", path=table.path)
    rows = [
        _record("power_limit_w", _common_limit(table, row), row.number("time"), row.number("energy")) for row in chosen
    ]
    first = chosen[0]
    extra = {name: first.text(name) for name in described}
    extra["gpus"] = str(first.whole("dp") * first.whole("tp") * first.whole("pp"))
    name = re.fullmatch(r"zeus_global_(\w+)\.csv", _name(table), re.IGNORECASE)
    device = _DEVICE_NAMES.get(name[1].lower(), f"NVIDIA {name[1]}") if name else None
    return _profile(device, workload, "iterations/s", "power_limit_w", rows, extra)


def _common_limit(table: Table, row: TableRow) -> float:
    """The one power limit of all pipeline stages of a row, watts; columns beyond its stages are unused."""
    limits = {row.number(name) for stage in range(row.whole("pp")) if (name := f"power_limit_{stage}") in table.columns}
    if len(limits) > 1:
        message = f"{table.path} line {row.line}: the power limits differ between the stages, so they are not one knob"
        raise ProfileError(message, hint="remove the row", path=table.path, line=row.line)
    return knob_value(limits.pop())


def _name(table: Table) -> str:
    return Path(table.path).name


def _record(knob: str, value: float, time_s: float, energy_j: float) -> ProfileRow:
    return ProfileRow(
        setting={knob: value},
        status=Status.OK,
        throughput=1 / time_s,
        power_mean_w=energy_j / time_s,
        energy_j=energy_j,
        duration_s=time_s,
        samples=1.0,
    )


def _profile(
    device: str | None, workload: str | None, unit: str, knob: str, rows: list[ProfileRow], extra: dict[str, str]
) -> Profile:
    metadata = ProfileMetadata(
        device=device, workload=workload, origin=_ORIGIN, licence="Apache-2.0", throughput_unit=unit, extra=extra
    )
    return Profile(metadata, (knob,), tuple(rows))
