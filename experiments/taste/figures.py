"""The figures: throughput against batch size, and accuracy in the arms."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.taste.arms import ARMS, REFERENCE
from experiments.taste.intervals import NEGLIGIBLE
from tuner.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tuner",  # equal figures are equal files
}
_BLUE, _ORANGE, _GREY, _GREEN = (
    "#0072B2",
    "#D55E00",
    "#6F6F6F",
    "#009E73",
)  # Okabe and Ito's, which the colour-blind can tell apart
_COLOURS = dict(zip(ARMS, (_GREY, _ORANGE, _BLUE, _GREEN), strict=True))
_COLUMNS = 4

Row = Mapping[str, Any]


def draw_curves(rows: Sequence[Row], folder: Path) -> None:
    """Draw `throughput.svg` and `.png`: a panel a subject.

    Raises:
        InputError: the files cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(max(2.9 * columns, 6.0), 2.5 * lines + 0.6), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).flatten()
        for panel, row in zip(panels, rows, strict=False):
            _curve(panel, row)
        for panel in panels[len(rows) :]:
            panel.set_axis_off()
        for panel in panels[::columns]:
            panel.set_ylabel("samples/s")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        _save(figure, folder / "throughput")


def _curve(panel: Axes, row: Row) -> None:
    points = row["points"]
    batches = [point["batch"] for point in points]
    panel.axhline(row["ceiling"]["throughput"], color=_GREY, linewidth=0.8, linestyle=(0, (4, 3)), label="ceiling")
    panel.plot(batches, [point["throughput"] for point in points], "-", color=_BLUE, linewidth=1.4, label="mean")
    every = [(point["batch"], burst) for point in points for burst in point["bursts"]]
    panel.plot(*zip(*every, strict=True), ".", color=_BLUE, markersize=4, alpha=0.6, label="a burst")
    reference = next((point for point in points if point["batch"] == row["reference"]), None)
    if reference is not None:
        look: dict[str, Any] = {"markerfacecolor": "none", "markersize": 9, "label": "reference batch"}
        panel.plot(reference["batch"], reference["throughput"], "s", color=_GREY, **look)
    if row["tuned_throughput"] is not None:
        panel.plot(row["tuned"]["batch"], row["tuned_throughput"], "*", color=_ORANGE, markersize=13, label="tuned")
    panel.set_xscale("log", base=2)
    panel.set_xticks(batches, [str(batch) for batch in batches], fontsize=7)
    panel.minorticks_off()
    panel.set_ylim(0)
    bursts = row["tuned"]["bursts"]
    panel.set_title(f"{row['subject']}\nbatch {row['tuned']['batch']} after {bursts} bursts", fontsize=9)
    panel.set_xlabel("batch size")


def draw_accuracy(parts: Mapping[str, Sequence[Row]], folder: Path) -> None:
    """Draw `accuracy.svg` and `.png`: for each part and subject the accuracy of every arm, and its paired difference to
    the reference.

    Raises:
        InputError: the files cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    groups = [(part, name) for part, rows in parts.items() for name in dict.fromkeys(row["subject"] for row in rows)]
    with rc_context(_STYLE):
        figure = Figure(figsize=(3.4 * len(groups), 4.6), layout="constrained")
        panels = figure.subplots(2, len(groups), squeeze=False)
        for (above, below), (part, name) in zip(panels.T, groups, strict=True):
            rows = [row for row in parts[part] if row["subject"] == name]
            above.set_title(f"{part}\n{name}, {rows[0]['seeds']} seeds", fontsize=9)
            _bars(above, rows, "accuracy", [_label(row) for row in rows])
            others = [row for row in rows if row["arm"] != REFERENCE]
            below.axhspan(-100 * NEGLIGIBLE, 100 * NEGLIGIBLE, color="#dddddd", linewidth=0)
            below.axhline(0, color=_GREY, linewidth=0.8)
            speeds = [f"{_name(row)}\n{row['speed_up']['mean']:.2f}x as fast" for row in others]
            _bars(below, others, "accuracy_less_reference", speeds)
        panels[0][0].set_ylabel("test accuracy (%)")
        panels[1][0].set_ylabel("less the reference (points)")
        figure.supxlabel("bars: 95 % intervals; grey band: half a point", fontsize=8)
        _save(figure, folder / "accuracy")


def _bars(panel: Axes, rows: Sequence[Row], measure: str, labels: Sequence[str]) -> None:
    for at, row in enumerate(rows):
        mean, low, high = (100 * row[measure][name] for name in ("mean", "low", "high"))
        look: dict[str, Any] = {"color": _COLOURS[row["arm"]], "capsize": 4, "markersize": 6}
        panel.errorbar(at, mean, [[mean - low], [high - mean]], fmt="o", **look)
    panel.set_xticks(range(len(rows)), labels, fontsize=7)
    panel.set_xlim(-0.5, len(rows) - 0.5)


def _label(row: Row) -> str:
    passes = f" = {row['passes']} x {row['micro_batch']}" if row["passes"] > 1 else ""
    return f"{_name(row)}\n{row['effective_batch']}{passes}"


def _name(row: Row) -> str:
    """The arm's name, in two lines where it has two parts."""
    return str(row["arm"]).replace(", ", ",\n")


def _save(figure: Figure, stem: Path) -> None:
    for suffix, metadata in ((".svg", {"Date": None}), (".png", None)):
        content = io.BytesIO()
        figure.savefig(content, format=suffix[1:], dpi=160, metadata=metadata)
        write_bytes(content.getvalue(), stem.with_suffix(suffix))
