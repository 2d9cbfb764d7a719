"""What is in a profile, in one dictionary."""

from __future__ import annotations

from collections import Counter
from typing import Any

from devices.device import BATCH_KNOB
from devices.profile._table import Profile


def profile_summary(profile: Profile) -> dict[str, Any]:
    """What a profile holds and can be used for, as JSON values; None where something was not recorded.

    `power_range_w` has the lowest and highest ok row by each statistic, `best` is the fastest setting without a cap,
    `gaps` counts the settings missing from the full grid, and `usable_for` says what a replay of it can answer.
    """
    metadata = profile.metadata
    ok_rows = profile.ok_rows
    speeds = [row.throughput for row in ok_rows if row.throughput is not None]
    counts = [cell.replicates for cell in profile.cells()]
    best = profile.best_feasible(None)
    return {
        "device": metadata.device,
        "workload": metadata.workload,
        "origin": metadata.origin,
        "licence": metadata.licence,
        "provenance": metadata.provenance,
        "recorded_at": metadata.recorded_at,
        "throughput_unit": profile.throughput_unit,
        "default_setting": dict(metadata.default_setting) if metadata.default_setting else None,
        "knobs": [{"name": knob.name, "unit": knob.unit, "values": list(knob.values)} for knob in profile.knobs],
        "rows": len(profile.rows),
        "ok_rows": len(ok_rows),
        "other_rows": {
            status.value: count for status, count in Counter(r.status for r in profile.rows if not r.ok).items()
        },
        "settings": len(profile.settings),
        "replicates": {"fewest": min(counts, default=0), "most": max(counts, default=0)},
        "power_range_w": {
            name: list(powers) if (powers := profile.power_range_w(name)) else None for name in ("mean", "p95", "peak")
        },
        "throughput_range": [min(speeds), max(speeds)] if speeds else None,
        "best": best and {"setting": dict(best.setting), "throughput": best.throughput, "power_mean_w": best.power_w},
        "gaps": {
            "missing": profile.missing_count,
            "grid": profile.grid_size,
            "examples": [dict(setting) for setting in profile.missing_settings(3)],
        },
        "usable_for": {
            "cap": bool(profile.statistics),
            "statistics": list(profile.statistics),
            "energy": "mean" in profile.statistics,
            "replicates": max(counts, default=0) > 1,
            "batch_size": len(profile.knob_values.get(BATCH_KNOB, ())) > 1,
        },
    }
