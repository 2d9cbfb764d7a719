"""Tables of a study, drawn from the document that `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tuner.report.text import change, count, figure, setting_text, work_unit
from tuner.units import watts

Document = Mapping[str, Any]


def _power_key(document: Document) -> str:
    cap = document["cap"]
    return f"power_{cap['statistic']}_w" if cap else "power_mean_w"


def _is_metered(document: Document) -> bool:
    return any(trial[_power_key(document)] is not None for trial in document["trials"])


def _figure_titles(document: Document) -> tuple[str, ...]:
    """Titles of the columns of figures; those of power only where there is a meter."""
    cap, unit = document["cap"], document["throughput_unit"]
    if not _is_metered(document):
        return (unit,)
    return unit, f"W {cap['statistic']}" if cap else "W mean", f"J/{work_unit(unit)}"


def _figures(document: Document, throughput: str, power: str, energy: str) -> tuple[str, ...]:
    """The cells below `_figure_titles`."""
    return (throughput, power, energy) if _is_metered(document) else (throughput,)


def trials_table(document: Document) -> Table:
    """Every burst of a study."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("setting", overflow="fold")
    for title in _figure_titles(document):
        table.add_column(title, justify="right", overflow="fold")
    table.add_column("status", overflow="fold")
    for trial in document["trials"]:
        status, style = trial_status(trial)
        table.add_row(
            str(trial["index"]),
            setting_text(trial["setting"]),
            *_figures(
                document,
                figure(trial["throughput"]),
                figure(trial[_power_key(document)], 3),
                figure(trial["energy_per_sample_j"]),
            ),
            Text(status, style=style),
        )
    return table


def trial_status(trial: Mapping[str, Any]) -> tuple[str, str]:
    """A trial's status in words, and the style to show it in."""
    words = trial["status"] or trial["state"]
    style = "" if trial["status"] == "ok" else "yellow"
    if trial["status"] == "ok" and trial["feasible"] is False:
        words, style = "above the cap", "red"
    if trial["role"] != "search":
        words += f" ({ {'confirm': 'confirmation', 'baseline': 'default'}[trial['role']] })"
    if trial.get("attempts", 1) > 1:
        words += f" (attempt {trial['attempts']})"
    if trial["reason"]:
        words += f": {trial['reason']}"
    return words, style


def result_table(document: Document) -> Table:
    """The recommended setting beside the default, with the gain."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("setting", overflow="fold")
    for title in _figure_titles(document):
        table.add_column(title, justify="right", overflow="fold")
    recommended, baseline = document["recommended"], document["baseline"]
    slowed = baseline is not None and baseline["slowed"]
    rows = [("recommended", recommended, "bold green"), ("default, slowed" if slowed else "default", baseline, "")]
    for title, entry, style in rows:
        if entry is None:
            continue
        power = entry["power_w"] if "power_w" in entry else entry[_power_key(document)]
        table.add_row(
            title,
            setting_text(entry["setting"]),
            *_figures(document, figure(entry["throughput"]), figure(power, 3), figure(entry["energy_per_sample_j"])),
            style=style,
        )
    if recommended and baseline:
        table.add_row(
            "gain",
            "",
            *_figures(
                document,
                change(recommended["throughput"], baseline["throughput"]),
                "",
                change(recommended["energy_per_sample_j"], baseline["energy_per_sample_j"]),
            ),
        )
    return table


def studies_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The studies of a store."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("study", "source", "goal", "cap", "bursts", "ended", "recommended"):
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*_study_cells(row))
    return table


def study_line(row: Mapping[str, Any]) -> str:
    """A study where the table has no room: `NAME: emulated, throughput, cap 7 W, 25 bursts, budget; GPU 408 MHz`."""
    study, source, goal, cap, _, ended, best = _study_cells(row)
    asked = f"{source}, {goal}, {'no cap' if cap == '-' else f'cap {cap}'}"
    return f"{study}: {asked}, {count(row['bursts'], 'burst')}, {ended}; recommended: {best}"


def _study_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    cap = watts(row["cap"]["watts"]) if row["cap"] else "-"
    best = setting_text(row["recommended"]["setting"]) if row["recommended"] else "-"
    return row["study"], row["source"], row["goal"], cap, str(row["bursts"]), row["stopped"] or "unfinished", best
