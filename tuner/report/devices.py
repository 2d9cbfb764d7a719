"""The catalog of devices, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devices.catalog import load_catalog
from devices.device import BATCH_KNOB, KNOB_UNITS
from devices.emulated import PRESET_KNOBS, EmulatedDevice
from devices.knobs import DEFAULT_BATCHES
from devices.remote import local_descriptions
from tuner.report.screen import console


def devices_document() -> list[dict[str, Any]]:
    """One entry a device: names, who answers, knobs with values, presets with what they pin; this machine first."""
    entries = [_local_entry(device) for device in local_descriptions()]
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


def _local_entry(device: Mapping[str, Any]) -> dict[str, Any]:
    """A device that every machine is. Its batch sizes end where a workload's data do."""
    batch = {"name": BATCH_KNOB, "unit": KNOB_UNITS[BATCH_KNOB], "values": list(DEFAULT_BATCHES)}
    others = [
        {"name": k["name"], "unit": KNOB_UNITS.get(k["name"], ""), "values": k["values"]} for k in device["knobs"]
    ]
    return {
        "name": device["name"],
        "aliases": [],
        "model": device["model"],
        "source": "measured",
        "meter": device["meter"],
        "knobs": [batch, *others],
        "presets": [],
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
