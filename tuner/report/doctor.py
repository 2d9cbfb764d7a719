"""The doctor's report as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devices.device import KNOB_UNITS
from tuner.report.console import console

_MOST_LISTED = 12


def print_report(report: Mapping[str, Any]) -> None:
    """Identity, knobs, meters, what is held fixed, the trainer, notes; in the end what is wrong and what mends it."""
    out = console()
    out.print(report["model"] or "a machine that is no board of the catalog", style="bold")
    known = [(word, report[word]) for word in ("module", "jetpack", "source") if report[word]]
    out.print("  " + ", ".join(f"{word}: {value}" for word, value in known))
    for name in report["restored"]:
        out.print(f"  put back: {name}")
    for knob in report["knobs"]:
        out.print(f"  {_knob(knob)}")
    if not report["knobs"]:
        out.print("  no knob beside the batch size")
    for meter in report["meters"]:
        watts = "cannot be read" if meter["watts"] is None else f"{meter['watts']:.3f} W"
        out.print(f"  meter {meter['rail']}: {watts}{', the total' if meter['is_total'] else ''}")
    total = report.get("total")
    if total and total["watts"] is not None:
        out.print(f"  a cap would hold on {total['name']}, now {total['watts']:.2f} W")
    if report.get("temperatures_c"):
        hottest = max(report["temperatures_c"].items(), key=lambda item: float(item[1]))
        out.print(f"  hottest: {hottest[0]}, {hottest[1]:.1f} C")
    held = ", ".join(f"{name}={value}" for name, value in report["held_fixed"].items())
    if held:
        out.print(f"  as found: {held}")
    trainer = report.get("trainer")
    if trainer:
        out.print(f"  trains with: {', '.join(f'{name} {value}' for name, value in trainer.items())}")
    for note in report["notes"]:
        out.print(f"  note: {note}", soft_wrap=True)
    problems: Sequence[Mapping[str, str]] = report["problems"]
    if not problems:
        out.print("nothing is wrong")
    for problem in problems:
        out.print(f"! {problem['what']}", style="bold", soft_wrap=True)
        out.print(f"  mend: {problem['mend']}", soft_wrap=True)


def _knob(knob: Mapping[str, Any]) -> str:
    values, (low, high) = knob["values"], knob["allowed"]
    unit = KNOB_UNITS.get(knob["name"], "")
    listed = ", ".join(f"{value:g}" for value in values)
    if len(values) > _MOST_LISTED:
        listed = f"{values[0]:g}, {values[1]:g} ... {values[-1]:g}, {len(values)} steps"
    words = [f"{knob['name']}: {listed} {unit}".rstrip()]
    if values and (low > values[0] or high < values[-1]):
        words.append(f"open now: {low:g} to {high:g}")
    if not knob["writable"]:
        words.append("cannot be set")
    return "; ".join(words)
