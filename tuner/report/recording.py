"""What a person sees of `tune record`: what is to be measured, progress, and what was recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from devices.measurement import Measurement
from tuner.recording import Recorded, Recording, RecordingProgress, RecordingSink
from tuner.report.console import console, count_bar
from tuner.report.text import count, figure, fixed_text, setting_text, source_text, span
from tuner.units import seconds, watts

_REASONS = 5  # that are printed


class RecordingScreen:
    """The text output. Quiet (`--json`): standard output stays free, progress goes to a terminal only."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = console(stderr=quiet)

    def _print(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text)

    def begin(self, recording: Recording, notes: Sequence[str]) -> None:
        """The first lines: source, device, how many bursts, and about how long they take."""
        info = recording.info
        self._print(source_text(info.source, info.model))
        for note in notes:
            self._print(f"note: {note}")
        if info.held_fixed:
            self._print(fixed_text(info.held_fixed))
        if recording.kept_as is not None:
            self._print(f"note: the file that is there is kept as {recording.kept_as}")
        size = (
            f"{count(len(recording.space), 'setting')} x {recording.repeats} = {count(recording.sweep.bursts, 'burst')}"
        )
        if not recording.sweep.left:
            self._print(f"{recording.path} is complete: {size}; more --repeats add to it, --fresh starts anew")
            return
        before = f", {recording.resumed} recorded before" if recording.resumed else ""
        low_s, high_s = recording.estimate_s
        where = "of the board's time" if info.source == "emulated" else "on the device"
        self._print(f"{size}{before}; {recording.sweep.left} to make, about {span(low_s, high_s)} {where}")

    def plan(self, recording: Recording) -> dict[str, Any]:
        """What would be done (`--dry-run`): `begin` printed it; as a document."""
        return {
            "profile": str(recording.path),
            "device": recording.info.name,
            "source": recording.info.source,
            "held_fixed": dict(recording.info.held_fixed),
            "space": {knob.name: list(knob.values) for knob in recording.space.knobs},
            "settings": len(recording.space),
            "repeats": recording.repeats,
            "bursts": recording.sweep.bursts,
            "left": recording.sweep.left,
            "estimate_s": list(recording.estimate_s),
        }

    @contextlib.contextmanager
    def progress(self, recording: Recording) -> Iterator[RecordingSink | None]:
        """A bar with the fastest so far; plain lines without a terminal."""
        unit = recording.info.throughput_unit

        def line(progress: RecordingProgress) -> None:
            self._console.print(_burst_line(progress, unit))

        if not self._console.is_terminal:
            yield None if self._quiet else line
            return
        bar = count_bar(self._console, "bursts")
        with bar:
            task = bar.add_task("starting", total=recording.resumed + recording.sweep.left, completed=recording.resumed)

            def show(progress: RecordingProgress) -> None:
                line(progress)
                best = progress.best
                text = (
                    f"best {figure(best.throughput)} at {setting_text(best.setting)}" if best else "nothing valid yet"
                )
                bar.update(task, completed=progress.done, total=progress.total, description=text)

            yield show

    def end(self, recorded: Recorded) -> None:
        """What was recorded, or why nothing was."""
        document = recorded.document
        rows = f"{count(document['rows'], 'row')}: {document['ok']} ok, {document['failed']} failed"
        self._print("")
        self._print(
            f"{count(document['settings'], 'setting')}, {rows}; {seconds(document['duration_s'])} on the device"
        )
        for reason in recorded.reasons[:_REASONS]:
            self._print(f"  {reason}")
        if len(recorded.reasons) > _REASONS:
            self._print(f"  and {len(recorded.reasons) - _REASONS} more; they are in the file")
        if document["skipped"]:
            self._print(
                f"left out: {count(document['skipped'], 'setting')}, as batches from there on run out of memory"
            )
        if document["best"]:
            best = f"{figure(document['best']['throughput'])} {document['throughput_unit']}"
            self._print(f"fastest: {best} at {setting_text(document['best']['setting'])}")
        elif document["ok"]:
            self._print("fastest: nothing measured is within the cap")
        if document["interrupted"]:
            self._print("interrupted; the same command goes on")
        if document["profile"]:
            self._print(f"recorded: {document['profile']}")
        elif not document["interrupted"]:
            self._print("no burst gave a valid measurement, so no profile was written")


def _burst_line(progress: RecordingProgress, unit: str) -> Text:
    """`[ 7/25] GPU 408 MHz, batch 64: 44.87 samples/s, 6.96 W, ok`."""
    found: Measurement = progress.measurement
    counted = f"[{progress.done:>{len(str(progress.total))}}/{progress.total}]"
    parts = [f"{figure(found.throughput)} {unit}"] if found.throughput else []
    parts += [watts(found.power_mean_w, 3)] if found.power_mean_w else []
    status = found.status.value + (f": {found.reason}" if found.reason else "")
    text = f"{counted} {setting_text(progress.setting)}: {', '.join([*parts, status])}"
    return Text(text, style="" if found.ok else "yellow")
