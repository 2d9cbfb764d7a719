"""The catalog of devices, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devices.catalog import load_catalog
from devices.device import LOCAL_DEVICES, DeviceInfo
from devices.emulated import PRESET_KNOBS, EmulatedDevice
from devices.remote import local_info
from tuner.report.screen import console


def devices_document() -> list[dict[str, Any]]:
    """One entry a device: names, who answers, knobs with values, presets with what they pin; this machine first."""
    entries = [_entry(local_info(name)) for name in LOCAL_DEVICES]
    for board in load_catalog():
        info = EmulatedDevice(board, preset=board.presets[0].name, search=PRESET_KNOBS).describe()
        presets = [
            {"name": p.name, **{knob: p.pinned(knob) for knob in PRESET_KNOBS}, "gpu_max_mhz": p.gpu_max_mhz}
            for p in board.presets
        ]
        entries.append(_entry(info, board.aliases, presets))
    return entries


def _entry(info: DeviceInfo, aliases: Sequence[str] = (), presets: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {
        "name": info.name,
        "aliases": list(aliases),
        "model": info.model,
        "source": info.source,
        "meter": info.meter,
        "knobs": [{"name": k.name, "unit": k.unit, "values": list(k.values)} for k in info.knobs],
        "presets": list(presets),
    }


def print_devices(document: Sequence[Mapping[str, Any]]) -> None:
    """The catalog as text."""
    out = console()
    for entry in document:
        aliases = f"  ({', '.join(entry['aliases'])})" if entry["aliases"] else ""
        out.print(f"{entry['name']}{aliases}", style="bold")
        out.print(f"  {entry['model']}; {entry['source']} here; meter: {entry['meter'] or 'none, so no cap'}")
        for knob in entry["knobs"]:
            searched = "  (with --search)" if knob["name"] in (*PRESET_KNOBS, "cpu_threads") else ""
            out.print(f"  {knob['name']}: {', '.join(f'{v:g}' for v in knob['values'])}{searched}")
        if entry["presets"]:
            out.print("  presets:")
        for preset in entry["presets"]:
            limit = f", GPU at most {preset['gpu_max_mhz']:g} MHz" if preset["gpu_max_mhz"] else ""
            out.print(
                f"    {preset['name']}: {preset['cpu_cores']} CPU cores at {preset['cpu_freq_mhz']:g} MHz, "
                f"EMC at {preset['emc_freq_mhz']:g} MHz{limit}"
            )
