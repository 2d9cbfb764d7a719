"""Run the contests, write tables and figures into the build folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from devices.errors import InputError, TunerError
from experiments.arena.contests import PARTS, Scale, contests
from tuner.arena import Compared, Contest, Run, Skipped, compare, summarize
from tuner.report.arena import LEGEND, contest_text, summary_markdown
from tuner.report.arena_plot import draw_regret

MAIN = ("public", "emulated")  # the first of these that was made is the main figure
PUBLISHED = Path("docs/images/arena.svg")
_LARGE_BYTES = 400_000  # a larger drawing is published as pixels


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(name: str, contest: Contest, folder: Path, jobs: int | None) -> Compared:
    """Run a contest and write `name`.json, .md, .svg and .png."""
    begin = time.monotonic()
    _say(f"{name}: {contest_text(contest)}")

    def tell(done: int, total: int, found: Run | Skipped) -> None:
        if done == total or done % max(total // 10, 1) == 0:
            _say(f"  {done}/{total} studies, {time.monotonic() - begin:.0f} s")

    compared = compare(contest, jobs, tell)
    if compared.interrupted:
        return compared
    rows = summarize(compared.runs)
    text = f"# {name}\n\n{contest_text(contest)}\n\n{summary_markdown(rows)}\n" + "\n\n".join(LEGEND) + "\n"
    text += "".join(f"\n- skipped: {s.strategy} on {s.profile}: {s.reason}" for s in compared.skipped)
    (folder / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    (folder / f"{name}.json").write_text(json.dumps(compared.to_json(), allow_nan=False) + "\n", encoding="utf-8")
    if compared.runs:
        for suffix in (".svg", ".png"):
            draw_regret(compared, folder / f"{name}{suffix}")
    _say(summary_markdown(rows))
    return compared


def publish(folder: Path, made: list[str]) -> None:
    """Copy the main figure to where the README shows it."""
    name = next((name for name in MAIN if name in made), None)
    if name is None:
        _say(f"nothing to publish: none of {', '.join(MAIN)} was made")
        return
    drawing = folder / f"{name}.svg"
    suffix = ".svg" if drawing.stat().st_size <= _LARGE_BYTES else ".png"
    target = PUBLISHED.with_suffix(suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(drawing.with_suffix(suffix).read_bytes())
    _say(f"published: {target}")


def main() -> int:
    """Exit status: 0 done, 2 an argument that cannot be, 3 a study failed, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m experiments.arena", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=Path("build/arena"), metavar="DIR")
    parser.add_argument("--jobs", type=int, default=None, metavar="N", help="processes; default: one a usable core")
    parser.add_argument("--publish", action="store_true", help=f"copy the main figure to {PUBLISHED.parent}")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    quick = os.environ.get("QUICK", "") not in ("", "0")
    if quick and arguments.publish:
        parser.error("a figure of few studies is not published: leave QUICK out")
    arguments.out.mkdir(parents=True, exist_ok=True)
    made = []
    try:
        planned = {part: list(contests(part, arguments.out / "profiles", Scale(quick))) for part in parts}
        for part, found in planned.items():
            if not found:
                _say(f"{part}: skipped, as TUNER_DATA (default ../shared/data) names no folder of public traces")
            for name, contest in found:
                if run(name, contest, arguments.out, arguments.jobs).interrupted:
                    return 130
                made.append(name)
        if arguments.publish:
            publish(arguments.out, made)
    except TunerError as error:
        sys.stderr.write(f"error: {error.message}\n" + (f"  hint: {error.hint}\n" if error.hint else ""))
        return 2 if isinstance(error, InputError) else 3
    _say(f"written into {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
