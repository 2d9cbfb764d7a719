"""Measure curves, tune, train and learn streams; write tables and figures into the build folder.

An interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from devices.device import open_device
from devices.errors import InputError, TunerError
from experiments.taste import continual, supervised, tables
from experiments.taste.arms import REFERENCE, Lesson
from experiments.taste.curves import measure_curve, profile_path, tune
from experiments.taste.figures import draw_accuracy, draw_curves
from experiments.taste.ledger import Ledger
from experiments.taste.subjects import Subject, subjects
from tuner.files import write_json, write_text

PUBLISHED = {"throughput": Path("docs/images/taste-throughput.svg"), "accuracy": Path("docs/images/taste-accuracy.svg")}
LEDGER = "results.jsonl"
SUPERVISED, CONTINUAL = "supervised", "online class-incremental"
MEASURES = {SUPERVISED: ("accuracy",), CONTINUAL: ("accuracy", "forgetting")}


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def study(subject: Subject, folder: Path, ledger: Ledger, document: dict[str, Any]) -> None:
    """Everything that is done with a subject; its rows are added to `document`."""
    with open_device("cpu", subject.workload, values={"batch_size": subject.batches}) as device:
        info, found = device.describe(), device.inspect(subject.workload)
        if found is None:
            raise InputError(f"{info.name} trains nothing")
        document["machine"] = {"cpu": info.model, **info.held_fixed}
        _say(f"{subject.name}: throughput at batch {', '.join(map(str, subject.batches))}")
        curve = measure_curve(subject, device, folder, _say)
        tuned = tune(subject, device, ledger)
        _say(f"  tuned: batch {tuned['batch']} after {tuned['bursts']} bursts, {tuned['seconds']:.0f} s")
        document["curves"].append(tables.curve_row(subject.name, curve, tuned, found.batch))
        lesson = Lesson(tuned["frozen"], info, found)
        parts: dict[str, list[dict[str, Any]]] = {}
        if subject.epochs:
            _say(f"{subject.name}: {subject.epochs} epochs, {subject.seeds} seeds")
            parts[SUPERVISED] = supervised.train_arms(subject, device, lesson, ledger, _say)
    if subject.streams:
        _say(f"{subject.name}: {subject.streams} class-incremental streams")
        parts[CONTINUAL] = continual.run_arms(subject, lesson, ledger, _say)
    for part, rows in parts.items():
        document[part] += tables.arm_rows(subject.name, rows, MEASURES[part])


def markdown(document: dict[str, Any]) -> str:
    """All tables."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    parts = [f"# TASTE on this machine\n\n{machine}{'; QUICK: short bursts' if document['quick'] else ''}"]
    parts += ["## Throughput", tables.curves_markdown(document["curves"]), tables.CURVES]
    for part, measures in MEASURES.items():
        rows = document[part]
        if not rows:
            continue
        claims = "\n".join(f"- {tables.claim(row)}" for row in rows if row["arm"] != REFERENCE)
        parts += [f"## {part.capitalize()}", tables.arms_markdown(rows, measures), claims]
    return "\n\n".join([*parts, tables.ARMS_LEGEND]) + "\n"


def write(document: dict[str, Any], folder: Path) -> None:
    """Write what is known: `taste.json`, `taste.md` and the figures.

    Raises:
        InputError: one cannot be written.
    """
    write_json(document, folder / "taste.json")
    write_text(markdown(document), folder / "taste.md")
    draw_curves(document["curves"], folder)
    trained = {part: document[part] for part in MEASURES if document[part]}
    if trained:
        draw_accuracy(trained, folder)


def publish(folder: Path) -> None:
    """Copy the figures to where the README shows them."""
    for name, target in PUBLISHED.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((folder / f"{name}.svg").read_bytes())
        _say(f"published: {target}")


def main() -> int:
    """Exit status: 0 done, 2 an argument that cannot be, 3 a burst or a training failed, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m experiments.taste", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: build/taste, with QUICK=1 build/taste/quick")
    parser.add_argument("--only", metavar="NAME,...", help="of the workloads, by their names in the tables")
    parser.add_argument("--fresh", action="store_true", help="do not go on with what is in DIR; QUICK=1 never does")
    parser.add_argument("--publish", action="store_true", help="copy the figures to docs/images")
    arguments = parser.parse_args()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    if quick and arguments.publish:
        parser.error("figures of short bursts are not published: leave QUICK out")
    folder = arguments.out or Path("build/taste/quick" if quick else "build/taste")
    folder.mkdir(parents=True, exist_ok=True)
    planned = subjects(folder, quick=quick)
    if arguments.only:
        names = [subject.name for subject in planned]
        wanted = arguments.only.split(",")
        if unknown := [name for name in wanted if name not in names]:
            parser.error(f"unknown name {', '.join(unknown)}; there are {', '.join(names)}")
        planned = tuple(subject for subject in planned if subject.name in wanted)
    if quick or arguments.fresh:
        for old in (folder / LEDGER, *(profile_path(subject, folder) for subject in planned)):
            old.unlink(missing_ok=True)
    began = time.monotonic()
    document: dict[str, Any] = {"quick": quick, "curves": [], SUPERVISED: [], CONTINUAL: []}
    try:
        for subject in planned:
            study(subject, folder, Ledger(folder / LEDGER), document)
            write(document, folder)
        if arguments.publish:
            publish(folder)
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on")
        return 130
    except TunerError as error:
        sys.stderr.write(f"error: {error.message}\n" + (f"  hint: {error.hint}\n" if error.hint else ""))
        return 2 if isinstance(error, InputError) else 3
    _say(f"\n{markdown(document)}\nwritten into {folder}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
