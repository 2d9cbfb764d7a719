"""`python -m experiments.torture [--runs N] [--kills N]`: the table of faults, then two campaigns; 1 if one failed."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from devices.errors import DeviceError
from experiments.torture import faults, kills

QUICK = bool(os.environ.get("QUICK"))


@click.command()
@click.option("--runs", type=int, default=20 if QUICK else 200, show_default=True, help="With random faults.")
@click.option("--kills", "count", type=int, default=10 if QUICK else 100, show_default=True, help="Of the agent.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(runs: int, count: int, seed: int) -> None:
    """What the product does on boards that misbehave."""
    click.echo(
        "| a fault in the window of a burst | what it is | said of that burst, then of the next |\n|---|---|---|"
    )
    for name, what, said in faults.table():
        click.echo(f"| `{name}` | {what} | {said} |")
    bad = _faults(runs, seed) + _kills(count, seed)
    sys.exit(1 if bad else 0)


def _faults(runs: int, seed: int) -> int:
    began, bad, statuses = time.monotonic(), 0, Counter[str]()
    for run in faults.campaign(runs, seed):
        statuses.update(status.partition(":")[0] for status in run.statuses)
        if run.wrong or run.left:
            bad += 1
            click.echo(f"{run.model} with {', '.join(map(str, run.faults))}: {run.wrong} left {run.left}")
    told = ", ".join(f"{status} {number}" for status, number in statuses.most_common())
    click.echo(f"\n{runs} boards with random faults: {bad} wrong; {told}; {time.monotonic() - began:.0f} s")
    return bad


def _kills(count: int, seed: int) -> int:
    began, bad, written = time.monotonic(), 0, 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            for kill in kills.campaign(Path(folder) / "board", count, seed):
                written += kill.written
                if kill.left or kill.processes:
                    bad += 1
                    click.echo(str(kill))
    except DeviceError as error:
        click.echo(f"kills: skipped, {error.message}")
        return 0
    seconds = time.monotonic() - began
    click.echo(f"{count} kills: {bad} left something; {written} found knobs changed at once; {seconds:.0f} s")
    return bad


main()
