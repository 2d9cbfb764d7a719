"""Recorded profiles as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from devices.profile import Profile, profile_summary
from devices.profile_check import Finding
from tuner.report.console import console
from tuner.report.text import figure, setting_text
from tuner.units import number, watts

_STYLES = {"fault": "red", "warning": "yellow", "note": ""}


def summary_line(profile: Profile) -> str:
    """`105 rows, power_limit_w x batch_size, NVIDIA V100, librispeech/deepspeech2/adamw`."""
    parts = [f"{len(profile.rows)} rows", " x ".join(profile.knob_names)]
    parts += [part for part in (profile.metadata.device, profile.metadata.workload) if part]
    return ", ".join(parts)


def print_profile(profile: Profile) -> None:
    """What a profile holds and can be used for."""
    out, summary = console(), profile_summary(profile)
    for key in ("device", "workload", "origin", "licence", "provenance", "recorded_at"):
        if summary[key]:
            out.print(f"{key}: {summary[key]}", markup=False)
    for knob in summary["knobs"]:
        out.print(f"{knob['name']}: {', '.join(map(number, knob['values']))}", markup=False)
    others = ", ".join(f"{count} {status}" for status, count in summary["other_rows"].items())
    out.print(f"rows: {summary['rows']}, {summary['ok_rows']} ok" + (f", {others}" if others else ""))
    gaps = summary["gaps"]
    out.print(f"settings: {summary['settings']} of the grid's {gaps['grid']}")
    if summary["throughput_range"]:
        low, high = summary["throughput_range"]
        out.print(f"throughput: {figure(low)} to {figure(high)} {summary['throughput_unit']}")
    for statistic, span in summary["power_range_w"].items():
        if span:
            out.print(f"power ({statistic}): {watts(span[0], 4)} to {watts(span[1], 4)}")
    if summary["best"]:
        best = summary["best"]
        out.print(
            f"fastest without a cap: {setting_text(best['setting'])}, {figure(best['throughput'])} "
            f"{summary['throughput_unit']}" + (f", {watts(best['power_mean_w'], 4)}" if best["power_mean_w"] else "")
        )
    use = summary["usable_for"]
    cap = f"a cap on {', '.join(use['statistics'])} power" if use["cap"] else "no cap (power is not recorded)"
    out.print(f"can be used for: throughput{', energy' if use['energy'] else ''}; {cap}")


def findings_document(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON values."""
    return [{"severity": f.severity, "what": f.what, "where": f.where, "mend": f.mend} for f in findings]


def print_findings(profile: Profile, findings: Sequence[Finding]) -> None:
    """Findings as text, faults first."""
    out = console()
    out.print(summary_line(profile), markup=False)
    for finding in findings:
        head = Text(f"{finding.severity}: {finding.what}", style=_STYLES[finding.severity])
        out.print(head)
        out.print(f"  where: {finding.where}\n  mend: {finding.mend}", markup=False)
    if not findings:
        out.print("nothing suspicious")
