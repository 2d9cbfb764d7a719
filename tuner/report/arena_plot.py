"""The figure of a comparison: regret against bursts, seconds and joules."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from devices.errors import InputError, UnsupportedError
from tuner.arena.compare import Compared
from tuner.arena.contest import FULL_GRID
from tuner.arena.result import Run
from tuner.arena.summary import Axis, costs_of, curve, strategies_of
from tuner.files import write_bytes
from tuner.report.arena import contest_text, partial_text
from tuner.strategies import DEFAULT_STRATEGY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

SUFFIXES = (".png", ".svg", ".pdf")
_POINTS = 300
_LINEAR = 0.01  # regret below which the scale is linear, so that 0 can be shown
_TICKS = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_LOGARITHMIC = 5.0  # ratio of what bursts cost from which a cost is shown in the logarithm
_AXES: tuple[tuple[Axis, str], ...] = (
    ("bursts", "bursts"),
    ("seconds", "time on the device (s)"),
    ("joules", "energy on the device (J)"),
)
# Okabe and Ito's colours, which the colour-blind can tell apart, without the yellow, which paper swallows, and with a
# grey for the black; a dash pattern tells two of one colour apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#6F6F6F")
_FIRST = "#D55E00"  # kept for the strategy that is the default
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))


def check_plot(path: Path) -> None:
    """Whether a figure can be drawn into `path`.

    Raises:
        InputError: a suffix that is no format.
        UnsupportedError: matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot {path}: a figure is a file {', '.join(SUFFIXES)}", hint=f"--plot {path.stem}.png")
    if importlib.util.find_spec("matplotlib") is None:
        raise UnsupportedError("matplotlib, which draws, is not installed", hint="pip install 'taste-tuner[arena]'")


def draw_regret(compared: Compared, path: Path) -> None:
    """Draw median regret with its interquartile band against what was spent, a panel for each cost.

    Raises:
        InputError: the file cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "tuner",  # equal figures are equal files
    }
    names = strategies_of(compared.runs)
    with rc_context(style):
        figure = Figure(figsize=(11.0, 4.6), layout="constrained")
        panels = figure.subplots(1, len(_AXES), sharey=True)
        lines: dict[str, Line2D] = {}
        for panel, (axis, title) in zip(panels, _AXES, strict=True):
            lines |= _panel(panel, compared.runs, names, axis)
            panel.set_xlabel(title)
        panels[0].set_ylabel("regret: 1 - throughput / optimum")
        figure.suptitle(_title(compared), fontsize=9.5)
        figure.legend(
            lines.values(), lines.keys(), loc="outside lower center", ncols=min(len(lines), 6) or 1, frameon=False
        )
        content = io.BytesIO()
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(content, format=path.suffix.lower()[1:], dpi=160, metadata=metadata)
    write_bytes(content.getvalue(), path, "--plot")


def _panel(panel: Axes, runs: Sequence[Run], names: Sequence[str], axis: Axis) -> dict[str, Line2D]:
    """The curves of all strategies along one cost, and their lines by name."""
    from matplotlib.ticker import MaxNLocator

    at = _grid(runs, axis)
    lines: dict[str, Line2D] = {}
    for index, name in enumerate(names):
        own = [run for run in runs if run.strategy == name]
        found = None if at is None else curve(own, axis, at)
        if found is None:
            continue
        first = name == DEFAULT_STRATEGY
        colour, dashes = _look(name, index)
        shade = 0.22 if first else 0.3 / (len(names) + 1)  # many bands lie on each other
        panel.fill_between(found.at, found.low, found.high, color=colour, alpha=shade, linewidth=0)
        look: dict[str, Any] = {"color": colour, "zorder": 3 + first}
        (lines[name],) = panel.plot(found.at, found.median, linestyle=dashes, linewidth=2.4 if first else 1.4, **look)
        end = float(np.median([costs_of(run, axis)[-1] for run in own if costs_of(run, axis)]))
        if end <= found.at[-1]:
            panel.plot(
                end,
                found.median[np.searchsorted(found.at, end, side="right") - 1],
                "o",
                markersize=5,
                clip_on=False,
                **look,
            )
    panel.set_yscale("symlog", linthresh=_LINEAR, linscale=0.4)
    panel.set_ylim(-0.0005, 1.05)
    panel.set_yticks(_TICKS, [f"{100 * tick:g} %" for tick in _TICKS])
    panel.minorticks_off()
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
    if at is None or not lines:
        why = "no study has a feasible setting" if at is not None or axis != "joules" else "no power is recorded"
        panel.text(0.5, 0.5, why, transform=panel.transAxes, ha="center", color="#666666")
        return lines
    panel.set_xlim(at[0], at[-1])
    if axis != "bursts" and _is_wide(runs, axis):
        panel.set_xscale("log")
    else:
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return lines


def _look(name: str, index: int) -> tuple[str, Any]:
    """Colour and dashes of the strategy that comes at `index`."""
    if name == DEFAULT_STRATEGY:
        return _FIRST, _DASHES[0]
    return _COLOURS[index % len(_COLOURS)], _DASHES[index // len(_COLOURS) % len(_DASHES)]


def _totals(runs: Sequence[Run], axis: Axis) -> list[float]:
    """What each study cost in all; those that measure everything are left out where others are there."""
    costs = [(run.strategy in FULL_GRID, costs[-1]) for run in runs if len(costs := costs_of(run, axis)) > 0]
    others = [cost for full, cost in costs if not full]
    return others or [cost for _, cost in costs]


def _is_wide(runs: Sequence[Run], axis: Axis) -> bool:
    """Whether a burst costs much more in some studies than in others: profiles of devices small and large."""
    costs = [costs[-1] / len(costs) for run in runs if len(costs := costs_of(run, axis)) > 0]
    low, high = np.percentile(costs, (5, 95))
    return bool(low > 0 and high > _LOGARITHMIC * low)


def _grid(runs: Sequence[Run], axis: Axis) -> npt.NDArray[np.float64] | None:
    """Where along a cost the regret is drawn; None where that cost is not recorded."""
    totals = _totals(runs, axis)
    if not totals or max(totals) <= 0:
        return None
    if axis == "bursts":
        return np.arange(1.0, max(totals) + 1) if max(totals) > 1 else np.array([1.0, 2.0])
    firsts = [costs[0] for run in runs if len(costs := costs_of(run, axis)) > 0 and costs[0] > 0]
    start = min(firsts, default=0.0)
    if _is_wide(runs, axis) and start > 0:
        return np.geomspace(start, max(totals), _POINTS)
    return np.linspace(0.0, max(totals), _POINTS)


def _title(compared: Compared) -> str:
    words = "median of the studies; band: between the quartiles; dot: where studies end, median"
    part = f"; {partial_text(compared)}" if compared.partial else ""
    return f"Regret of the best feasible setting so far: {words}\n{contest_text(compared.contest)}{part}"
