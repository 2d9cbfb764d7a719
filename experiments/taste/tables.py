"""The results as rows for `taste.json`, and as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.taste.arms import ARMS, REFERENCE
from experiments.taste.curves import Curve
from experiments.taste.intervals import Interval, difference, interval, ratio

Row = Mapping[str, Any]

CURVES = """\
A number after a network's name: pixels; `digits` are enlarged to 16 pixels; `small` is a transformer of 2 layers, 128
wide, others have 6, 256 wide. Real bursts; tuned by a study of its own, which knew nothing of the curve. What it found
is judged by the bursts of the curve; `spread` is theirs, relative, at the same batch."""

ARMS_LEGEND = """\
Means over seeds with 95 % intervals (Student). Differences and speed-ups are paired by seed: the same initial weights,
order of data and of classes. `reference`: the batch and learning rate the workload was made for. `tuned, accumulated`:
what `tune train` makes of the tuned batch: gathered up to the reference batch, or, where it is larger, a batch of its
own with scaled learning rate (linearly; for AdamW by the square root) and warm-up. `tuned alone`: the tuned batch,
nothing else changed. `quarters, accumulated`: the reference batch in four passes, whatever was tuned: what accumulation
alone does. Where two arms are the same training, it was done once. Supervised: the same epochs, cosine decay.
Class-incremental: see `experiments/taste/continual.py`; forgetting is that of Chaudhry et al. 2018."""


def curve_row(name: str, curve: Curve, tuned: Mapping[str, Any], reference: int) -> dict[str, Any]:
    """A subject's curve and study. Speed-ups are of the tuned batch, by the bursts of the curve alone: those of the
    study chose it, and would flatter it."""
    at = curve.at(tuned["batch"])

    def over(batch: int) -> float | None:
        other = curve.at(batch)
        return at.throughput / other.throughput if at and other else None

    ceiling, knee, largest = curve.ceiling, curve.knee, curve.largest
    return {
        "subject": name,
        "points": [{"batch": p.batch, "throughput": p.throughput, "bursts": list(p.bursts)} for p in curve.points],
        "burst_spread": curve.spread,
        "ceiling": {"batch": ceiling.batch, "throughput": ceiling.throughput},
        "smallest_near_ceiling": knee.batch,
        "largest": {"batch": largest.batch, "throughput": largest.throughput},
        "out_of_memory": curve.out_of_memory,
        "reference": reference,
        "tuned": {key: tuned[key] for key in ("batch", "bursts", "seconds", "stopped")},
        "tuned_throughput": at.throughput if at else None,
        "tuned_over": {
            "ceiling": over(ceiling.batch),
            "largest": over(largest.batch),
            "reference": over(reference),
            "one": over(1),
        },
    }


def arm_rows(subject: str, rows: Sequence[Row], measures: Sequence[str]) -> list[dict[str, Any]]:
    """A row an arm: every measure with its interval and its paired difference to the reference, and the speed-up."""
    by_arm = {arm: sorted((row for row in rows if row["arm"] == arm), key=lambda row: row["seed"]) for arm in ARMS}

    def values(arm: str, measure: str) -> list[float]:
        return [float(row[measure]) for row in by_arm[arm]]

    found = []
    for arm, own in by_arm.items():
        row: dict[str, Any] = {"subject": subject, "arm": arm, "seeds": len(own)}
        for name in ("micro_batch", "effective_batch", "passes", "learning_rate", "steps"):
            row[name] = own[0][name]
        for measure in measures:
            row[measure] = interval(values(arm, measure))._asdict()
            row[f"{measure}_less_reference"] = difference(values(arm, measure), values(REFERENCE, measure))._asdict()
        row["seconds"] = interval(values(arm, "seconds"))._asdict()
        row["speed_up"] = ratio(values(REFERENCE, "seconds"), values(arm, "seconds"))._asdict()
        found.append(row)
    return found


def curves_markdown(rows: Sequence[Row]) -> str:
    """The table of curves and studies."""
    head = (
        "workload",
        "ceiling (samples/s)",
        "spread",
        "smallest batch within 2 % of it",
        "largest batch that trains",
        "tuned batch",
        "found in",
        "of the ceiling",
        "over the largest",
        "over the reference batch",
        "over batch 1",
    )
    return _table(head, map(_curve_cells, rows))


def _curve_cells(row: Row) -> list[str]:
    over, tuned = row["tuned_over"], row["tuned"]
    memory = f" (out of memory at {row['out_of_memory']})" if row["out_of_memory"] else " (the list ends there)"
    times = [_times(over[name]) for name in ("largest", "reference", "one")]
    return [
        row["subject"],
        f"{_speed(row['ceiling']['throughput'])} at {row['ceiling']['batch']}",
        "" if row["burst_spread"] is None else f"{row['burst_spread']:.0%}",
        str(row["smallest_near_ceiling"]),
        f"{row['largest']['batch']}{memory}",
        str(tuned["batch"]),
        f"{tuned['bursts']} bursts, {tuned['seconds']:.0f} s",
        "not on the curve" if over["ceiling"] is None else f"{over['ceiling']:.0%}",
        times[0],
        f"{times[1]} ({row['reference']})",
        times[2],
    ]


def arms_markdown(rows: Sequence[Row], measures: Sequence[str]) -> str:
    """The table of arms, accuracies in per cent and points."""
    head = ["workload", "arm", "steps of", "learning rate", "seeds"]
    for measure in measures:
        head += [f"{measure} (%)", "less reference (points)"]
    return _table([*head, "seconds", "speed-up"], (_arm_cells(row, measures) for row in rows))


def _arm_cells(row: Row, measures: Sequence[str]) -> list[str]:
    passes = f" = {row['passes']} x {row['micro_batch']}" if row["passes"] > 1 else ""
    cells = [row["subject"], row["arm"], f"{row['effective_batch']}{passes}", f"{row['learning_rate']:g}"]
    cells.append(str(row["seeds"]))
    other = row["arm"] != REFERENCE
    for measure in measures:
        cells += [_percent(row[measure]), _percent(row[f"{measure}_less_reference"], "+") if other else ""]
    speed = row["speed_up"]
    return [
        *cells,
        f"{row['seconds']['mean']:.1f}",
        f"{speed['mean']:.2f} [{speed['low']:.2f}, {speed['high']:.2f}]" if other else "",
    ]


def claim(row: Row) -> str:
    """A sentence on whether an arm is as accurate as the reference."""
    found = Interval(**row["accuracy_less_reference"])
    text = _percent(row["accuracy_less_reference"], "+")
    if found.is_negligible:
        why = "the interval contains 0" if found.low <= 0 <= found.high else "within half a point"
        return f"{row['subject']}, {row['arm']}: {text} points, {why}"
    return f"{row['subject']}, {row['arm']}: {text} points, {'better' if found.mean > 0 else 'LESS ACCURATE'}"


def _percent(found: Mapping[str, float], sign: str = "") -> str:
    mean, low, high = (format(100 * found[name] + 0.0, f"{sign}.2f") for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _speed(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(value: float | None) -> str:
    return "not on the curve" if value is None else f"{value:.2f}x"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
