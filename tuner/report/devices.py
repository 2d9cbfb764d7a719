"""The catalog of devices, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devices.catalog import Board, Preset, load_catalog
from devices.device import LOCAL_DEVICES, DeviceInfo
from devices.emulated import EmulatedDevice
from devices.errors import DeviceError
from devices.remote import local_info
from tuner.report.console import console
from tuner.target import preset_text
from tuner.units import number

_LOCAL_EXTRA_KNOBS = ("cpu_threads",)
_MOST_LISTED = 16


def devices_document() -> list[dict[str, Any]]:
    """One entry a device: names, who answers, knobs with values, presets with what they pin; this machine first."""
    entries = [_local_entry(name) for name in LOCAL_DEVICES]
    for board in load_catalog():
        widest = max(board.presets, key=lambda preset: len(board.speed_steps(preset)))
        info = EmulatedDevice(board, preset=widest.name, search=board.extra_knobs).describe()
        presets = [_preset(board, preset) for preset in board.presets]
        entries.append(_entry(info, board.extra_knobs, board.aliases, presets))
    return entries


def _local_entry(name: str) -> dict[str, Any]:
    """What this machine is as that device; with `source` null and the reason where it is none."""
    try:
        return _entry(local_info(name), _LOCAL_EXTRA_KNOBS)
    except DeviceError as error:
        absent = DeviceInfo(name, "measured", (), notes=(error.message,))
        return {**_entry(absent, ()), "source": None, "model": error.message}


def _preset(board: Board, preset: Preset) -> dict[str, Any]:
    pinned = {knob: preset.pinned(knob) for knob in board.pinned_knobs}
    limit = {"gpu_max_mhz": preset.gpu_max_mhz} if board.gpu is not None else {}
    return {"name": preset.name, **pinned, **limit, "text": preset_text(board, preset), "note": preset.note}


def _entry(
    info: DeviceInfo, extra: Sequence[str], aliases: Sequence[str] = (), presets: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    return {
        "name": info.name,
        "aliases": list(aliases),
        "model": info.model,
        "source": info.source,
        "meter": info.meter,
        "knobs": [
            {"name": k.name, "unit": k.unit, "values": list(k.values), "extra": k.name in extra} for k in info.knobs
        ],
        "presets": list(presets),
    }


def print_devices(document: Sequence[Mapping[str, Any]]) -> None:
    """The catalog as text."""
    out = console()
    for entry in document:
        aliases = f"  ({', '.join(entry['aliases'])})" if entry["aliases"] else ""
        out.print(f"{entry['name']}{aliases}", style="bold")
        if entry["source"] is None:
            out.print(f"  not here: {entry['model']}")
            continue
        out.print(f"  {entry['model']}; {entry['source']} here; meter: {entry['meter'] or 'none, so no cap'}")
        for knob in entry["knobs"]:
            searched = "  (with --search)" if knob["extra"] else ""
            out.print(f"  {knob['name']}: {_listed(knob['values'])}{searched}")
        if entry["presets"]:
            out.print("  presets, the default first:")
        for preset in entry["presets"]:
            out.print(f"    {preset['name']}: {preset['text']}")


def _listed(values: Sequence[float]) -> str:
    """All values, or of many the ends and how many there are."""
    if len(values) <= _MOST_LISTED:
        return ", ".join(map(number, values))
    return f"{', '.join(map(number, values[:3]))} ... {number(values[-1])}, {len(values)} values"
