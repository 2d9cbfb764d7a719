"""What a person sees of a study: where the figures come from, progress, and the result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from devices.catalog import find_board
from tuner.outcome import trial_json
from tuner.report.console import MOST_COLUMNS, console, count_bar
from tuner.report.tables import result_table, studies_table, study_line, trial_status, trials_table
from tuner.report.text import cap_text, count, figure, fixed_text, setting_text, source_text, span
from tuner.session import Watchers
from tuner.study import Progress as StudyProgress
from tuner.study import Study
from tuner.units import joules, number, seconds, watts


class Screen:
    """The text output of `tune run`. Quiet (`--json`): standard output stays free, progress goes to a terminal only."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = console(stderr=quiet)

    def _print(self, *renderables: Any) -> None:
        if not self._quiet:
            self._console.print(*renderables)

    def begin(self, study: Study, notes: Sequence[str]) -> None:
        """The first lines: source, device, question."""
        info, problem = study.info, study.problem
        self._print(source_text(info.source, info.model))
        for note in notes:
            self._print(f"note: {note}")
        if info.held_fixed:
            self._print(fixed_text(info.held_fixed))
        cap = {"watts": problem.cap.watts, "statistic": problem.cap.statistic} if problem.cap else None
        made = sum(trial.attempts for trial in study.trials)  # without the one that was interrupted
        resumed = f", going on after {count(made, 'burst')}" if study.resumed else ""
        self._print(
            f"study {study.name}: {problem.goal.title} under {cap_text(cap)}, {count(len(problem.space), 'setting')}"
            f", at most {study.bursts} bursts{resumed}"
        )

    @contextlib.contextmanager
    def progress(self, study: Study) -> Iterator[Watchers]:
        """A bar with the running burst and the best so far; plain lines without a terminal."""

        def line(progress: StudyProgress) -> None:
            self._console.print(_burst_line(progress, study))

        if not self._console.is_terminal:
            yield Watchers(None if self._quiet else line)
            return
        bar = count_bar(self._console, "bursts")
        with bar:
            task = bar.add_task("starting", total=study.bursts, completed=study.bursts_made)
            best = ""

            def show(progress: StudyProgress) -> None:
                nonlocal best
                line(progress)
                best = _best_text(progress)
                bar.update(task, completed=progress.bursts, description=best)

            def tell(event: Mapping[str, Any]) -> None:
                running = _event_text(event, study)
                bar.update(task, description=f"{running}; {best}" if best else running)

            yield Watchers(show, tell)

    def plan(self, study: Study) -> dict[str, Any]:
        """What would be done (`--dry-run`), printed and as a document."""
        info, space = study.info, study.problem.space
        (low_s, high_s), cap = study.estimate_s, study.problem.cap
        most_j = cap.watts * high_s if cap else None
        asked = study.ask()  # in a store of its own, which nobody sees
        start = asked[0].setting if asked else space.safe_start()
        writes = {knob: list(files) for knob, files in info.writes.items() if files}
        document = {
            "study": study.name,
            "device": info.name,
            "source": info.source,
            "held_fixed": dict(info.held_fixed),
            "space": {knob.name: list(knob.values) for knob in space.knobs},
            "settings": len(space),
            "first": dict(start),
            "bursts": study.bursts,
            "estimate_s": [low_s, high_s],
            "estimate_j": most_j,
            "writes": writes,
        }
        self._print("would search:")
        for knob in space.knobs:
            self._print(f"  {knob.name}: {', '.join(map(number, knob.values))}")
        self._print(f"would begin at: {setting_text(start)}")
        energy = f", and at most about {joules(most_j)} at the cap" if most_j is not None else ""
        self._print(f"at most {count(study.bursts, 'burst')}: {span(low_s, high_s)} on the device{energy}")
        if not writes:
            self._print("would write to the device: nothing")
        for name, files in writes.items():
            self._print(f"would write for {name}, and put back: {', '.join(files)}")
        return document

    def end(self, document: Mapping[str, Any], record: Path | None) -> None:
        """The result: what is recommended and what it gains, or why nothing is."""
        words = {
            "converged": "nothing better is expected",
            "budget": "the budget is spent",
            "infeasible": "nothing holds the cap",
            "interrupted": "interrupted; the same command goes on",
            None: "not finished; the command that began it goes on",
        }[document["stopped"]]
        if document["stopped"] == "infeasible" and document["cap"] is None:
            words = "nothing could be measured"
        if document["recommended"] is None and document["best_measured"] and document["stopped"] == "converged":
            words = "nothing is certain to hold the cap"
        energy = f" and {joules(document['search_energy_j'])}" if document["search_energy_j"] else ""
        spent = f"{seconds(document['search_time_s'])}{energy} on the device"
        bursts = sum(trial.get("attempts", 1) for trial in document["trials"])
        self._print()
        self._print(f"{count(bursts, 'burst')}, {spent}: {words}")
        if document["recommended"] is not None:
            self._print()
            self._print(result_table(document))
            self._print()
            if document["baseline_note"]:
                self._print(f"default: {setting_text(document['default_setting'])}; {document['baseline_note']}")
            if document["cap"]:
                self._print(
                    f"P(power <= {watts(document['cap']['watts'])}) = "
                    f"{document['recommended']['feasible_probability']:.3f} by the model, "
                    f"measured in {count(document['recommended']['bursts'], 'burst')}"
                )
        else:
            self._print_why_not(document)
        if document["frozen"]:
            self._print(f"frozen: {document['frozen']}")
        if record is not None:
            self._print(f"recorded: {record}")

    def _print_why_not(self, document: Mapping[str, Any]) -> None:
        for line in why_not(document):
            self._print(line)


def why_not(document: Mapping[str, Any]) -> list[str]:
    """Why nothing is recommended: the lowest power seen, and what to try."""
    cap, best = document["cap"], document["best_measured"]
    if document["stopped"] in (None, "interrupted"):
        return []
    if best is not None and (cap is None or best["bursts"] < 2):
        return [f"the best setting measured, {setting_text(best['setting'])}, was not confirmed; try more --bursts"]
    key = f"power_{cap['statistic']}_w" if cap else "power_mean_w"
    if best is not None:
        return [
            f"no setting is certain to hold {watts(cap['watts'])}: the best one measured, "
            f"{setting_text(best['setting'])}, is too near to it with {watts(best[key], 4)}",
            "try: more --bursts, or a cap a little higher",
        ]
    above = [trial for trial in document["trials"] if trial["feasible"] is False and trial[key] is not None]
    if not above or cap is None:
        reasons = {f"{trial['status']}: {trial['reason']}" for trial in document["trials"] if trial["reason"]}
        return ["no burst gave a valid measurement", *sorted(reasons)]
    lowest = min(above, key=lambda trial: trial[key])
    bound = "at least " if lowest["status"] == "over_cap" else ""
    lines = [
        f"no feasible setting: the lowest power seen is {bound}{watts(lowest[key], 4)} ({cap['statistic']}) at "
        f"{setting_text(lowest['setting'])}, above the cap of {watts(cap['watts'])}"
    ]
    if document["source"] == "replayed":
        return [*lines, "try: a higher --cap; tune profile show tells the range of power recorded"]
    board = find_board(document["device"])
    more = [name for name in (board.extra_knobs if board else ()) if name not in lowest["setting"]]
    return [
        *lines,
        "try: a higher --cap" + (f", or --search {','.join(more)} to slow more of the board" if more else ""),
    ]


def _burst_line(progress: StudyProgress, study: Study) -> Text:
    """`[ 7/25] GPU 408 MHz, batch 64: 44.87 samples/s, 6.96 W, ok`."""
    cap = study.problem.cap
    entry = trial_json(progress.trial, cap)
    status, style = trial_status(entry)
    power_w = entry[cap.metric if cap else "power_mean_w"]
    count = f"[{progress.bursts:>{len(str(progress.budget))}}/{progress.budget}]"
    parts = [f"{figure(entry['throughput'])} {study.info.throughput_unit}"] if entry["throughput"] else []
    parts += [watts(power_w, 3)] if power_w else []
    return Text(f"{count} {setting_text(entry['setting'])}: {', '.join([*parts, status])}", style=style)


def _event_text(event: Mapping[str, Any], study: Study) -> str:
    """`batch 64: window, 1895 samples/s, 6.9 W`."""
    parts = [event["phase"] + ("" if event.get("steady", True) else " (not steady)")]
    parts += [f"{figure(event['throughput'])} {study.info.throughput_unit}"] if event.get("throughput") else []
    parts += [watts(event["power_w"], 3)] if event.get("power_w") else []
    return f"{setting_text(event['setting'])}: {', '.join(parts)}"


def _best_text(progress: StudyProgress) -> str:
    best = progress.best
    if best is None:
        return "nothing within the cap yet"
    return f"best {figure(best.goal.value)} at {setting_text(best.setting)}"


def print_study(document: Mapping[str, Any]) -> None:
    """A study: its bursts and what it recommends."""
    out = console()
    out.print(source_text(document["source"], document["device"]))
    out.print(f"study {document['study']}: {document['goal']} under {cap_text(document['cap'])}")
    if document["held_fixed"]:
        out.print(fixed_text(document["held_fixed"]))
    out.print()
    out.print(trials_table(document))
    Screen().end(document, None)


def print_studies(rows: list[dict[str, Any]]) -> None:
    """The studies of a store."""
    out = console()
    table = studies_table(rows)
    if not rows:
        out.print("no study yet; tune run begins one")
    elif out.measure(table, options=out.options.update(max_width=MOST_COLUMNS)).maximum <= out.width:
        out.print(table)
    else:
        for row in rows:
            out.print(study_line(row))
