"""The catalog of devices, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devices.catalog import load_catalog
from devices.emulated import PRESET_KNOBS, EmulatedDevice
from tuner.report.screen import console


def devices_document() -> list[dict[str, Any]]:
    """One entry a board: names, who answers, knobs with values, presets with what they pin."""
    entries = []
    for board in load_catalog():
        info = EmulatedDevice(board, preset=board.presets[0].name, search=PRESET_KNOBS).describe()
        entries.append(
            {
                "name": board.name,
                "aliases": list(board.aliases),
                "model": board.model,
                "source": "emulated",
                "meter": info.meter,
                "knobs": [{"name": k.name, "unit": k.unit, "values": list(k.values)} for k in info.knobs],
                "presets": [
                    {"name": p.name, **{knob: p.pinned(knob) for knob in PRESET_KNOBS}, "gpu_max_mhz": p.gpu_max_mhz}
                    for p in board.presets
                ],
            }
        )
    return entries


def print_devices(document: Sequence[Mapping[str, Any]]) -> None:
    """The catalog as text."""
    out = console()
    for entry in document:
        out.print(f"{entry['name']}  ({', '.join(entry['aliases'])})", style="bold")
        out.print(f"  {entry['model']}; {entry['source']} here; meter: {entry['meter']}")
        for knob in entry["knobs"]:
            searched = "" if knob["name"] not in PRESET_KNOBS else "  (with --search)"
            out.print(f"  {knob['name']}: {', '.join(f'{v:g}' for v in knob['values'])}{searched}")
        out.print("  presets:")
        for preset in entry["presets"]:
            limit = f", GPU at most {preset['gpu_max_mhz']:g} MHz" if preset["gpu_max_mhz"] else ""
            out.print(
                f"    {preset['name']}: {preset['cpu_cores']} CPU cores at {preset['cpu_freq_mhz']:g} MHz, "
                f"EMC at {preset['emc_freq_mhz']:g} MHz{limit}"
            )
