"""`tune record`: a grid of settings measured into a recorded profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import (
    Power,
    Whole,
    access_options,
    json_option,
    print_json,
    space_options,
    split_names,
    unique,
    workload_options,
)
from tuner.interrupt import Interrupts

if TYPE_CHECKING:
    from devices.device import Device, WorkloadSpec

NOTHING_YET: dict[str, Any] = {
    **dict.fromkeys(("profile", "device", "source", "workload", "throughput_unit", "settings", "best")),
    **dict.fromkeys(("rows", "ok", "failed", "skipped"), 0),
    "duration_s": 0.0,
    "interrupted": True,
}
"""The document of a recording that was interrupted before it began."""


@click.command(cls=TuneCommand)
@click.option("--device", metavar="NAME", required=True, help="cpu (this machine), jetson-orin, ... (tune devices).")
@click.option("--workload", metavar="W", default="resnet18", show_default=True, help="What is trained.")
@workload_options
@space_options
@access_options
@click.option("--repeats", type=Whole(min=1), default=1, show_default=True, metavar="N", help="Bursts a setting.")
@click.option(
    "--seed",
    type=Whole(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Of the order, and of emulation.",
)
@click.option(
    "--cap", "cap_w", type=Power(), metavar="7W", help="End a burst above this power: 7W, 6500mW or 7 (watts)."
)
@click.option("--fresh", is_flag=True, help="Start anew; a file that is there is kept under a name with a number.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and how long it takes, measure nothing.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="PROFILE.csv", help="The profile to write."
)
@json_option
def record(**options: Any) -> int:
    """Measure every setting of a grid into a profile, for replay.

    The file is written after every burst: the same command goes on with an unfinished one. Ctrl-C finishes the burst.

    \b
    tune record --device jetson-orin --values batch_size=8,16,32 -o orin.csv
    tune run --replay orin.csv --cap 7W
    """
    as_json = options["as_json"]
    try:
        with Interrupts(lambda text: click.echo(text, err=True)) as interrupts:
            return _record(options, interrupts)
    except KeyboardInterrupt:  # twice, before anything was measured
        if as_json:
            print_json(NOTHING_YET)
        return 130


def _record(options: dict[str, Any], interrupts: Interrupts) -> int:
    from devices.device import WorkloadSpec
    from tuner.files import require_writable
    from tuner.recording import Recording
    from tuner.report.recording import RecordingScreen

    as_json = options["as_json"]
    require_writable(options["out"], "-o")  # before a device is opened
    workload = WorkloadSpec(
        options["workload"], dict(unique(options["workload_arg"], "--workload-arg")), options["data"]
    )
    device, notes = _open(options, workload)
    with device:
        recording = Recording(
            device,
            workload,
            options["out"],
            repeats=options["repeats"],
            seed=options["seed"],
            cap_w=options["cap_w"],
            fresh=options["fresh"],
        )
        screen = RecordingScreen(quiet=as_json)
        screen.begin(recording, notes)
        if options["dry_run"]:
            if as_json:
                print_json(screen.plan(recording))
            return 0
        interrupts.watch(recording)
        with screen.progress(recording) as progress:
            recorded = recording.run(progress)
    screen.end(recorded)
    if as_json:
        print_json(recorded.document)
    return recorded.exit_status


def _open(options: dict[str, Any], workload: WorkloadSpec) -> tuple[Device, tuple[str, ...]]:
    """The device asked for, and sentences for the user."""
    from devices.device import Access
    from tuner.goal import Cap, find_goal
    from tuner.target import AUTO_PRESET, open_target

    device, notes = open_target(
        options["device"],
        workload,
        find_goal("throughput"),
        Cap(options["cap_w"], "p95") if options["cap_w"] is not None else None,
        preset=options["preset"] or AUTO_PRESET,
        search=split_names(options["search"], "--search"),
        values=unique(options["values"], "--values"),
        seed=options["seed"],
        access=Access(options["python"], options["sysfs_root"], options["meter"], options["emulate"]),
    )
    return device, (*device.describe().notes, *notes)
