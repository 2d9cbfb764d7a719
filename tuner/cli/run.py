"""`tune run`: from a question to a frozen config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import (
    Power,
    Whole,
    access_options,
    json_option,
    noise_options,
    print_json,
    space_options,
    split_names,
    store_option,
    unique,
    workload_options,
)
from tuner.interrupt import Interrupts

NOTHING_YET: dict[str, Any] = {
    **dict.fromkeys(("study", "device", "source", "goal", "throughput_unit", "cap", "held_fixed", "best_measured")),
    **dict.fromkeys(("recommended", "baseline", "baseline_note", "default_setting")),
    "trials": [],
    "search_time_s": 0.0,
    "search_energy_j": 0.0,
    "stopped": "interrupted",
    "frozen": None,
}
"""The document of a run that was interrupted before there was a study."""


@click.command(cls=TuneCommand)
@click.option("--device", metavar="NAME", help="cpu (this machine), jetson-orin, ... (tune devices lists them).")
@click.option(
    "--replay", type=click.Path(path_type=Path), metavar="PROFILE.csv", help="Answer from a recorded profile."
)
@click.option("--cap", "cap_w", type=Power(), metavar="7W", help="Power cap: 7W, 6500mW or 7 (watts).")
@click.option(
    "--cap-on", type=click.Choice(["mean", "p95", "peak"]), help="Statistic the cap holds on.  [default: p95]"
)
@click.option("--goal", metavar="G", help="throughput or energy.  [default: throughput]")
@click.option("--workload", metavar="W", help="What is trained.  [default: resnet18; replay: the profile's]")
@workload_options
@space_options
@click.option("--bursts", type=Whole(min=1), metavar="N", help="Budget, confirmation included.  [default: 25]")
@click.option("--strategy", metavar="S", help="cap-aware, ax, sobol, random, ...  [default: cap-aware]")
@click.option(
    "--prior", multiple=True, metavar="STUDY|PROFILE", help="An earlier record to learn from first; may be repeated."
)
@click.option("--seed", type=Whole(min=0), metavar="N", help="Of strategy and noise.  [default: 0]")
@noise_options
@access_options
@click.option("--study", "name", metavar="NAME", help="Name of the study.  [default: device-workload-goal-cap]")
@click.option("--fresh", is_flag=True, help="Start anew; an earlier study of that name is kept under another.")
@store_option
@click.option("--record", type=click.Path(path_type=Path), metavar="FILE", help="Write the bursts as a profile.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The frozen config.  [default: frozen.json]"
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, measure nothing.")
@json_option
def run(**options: Any) -> int:
    """Find the setting that trains best under a cap, and freeze it into a file.

    The same command goes on with an unfinished study and prints a finished one. Ctrl-C finishes the burst and saves.

    \b
    tune run --device jetson-orin --cap 7W
    tune run --device cpu --workload digits-cnn --search cpu_threads
    tune run --device jetson-orin --cap 7W --search cpu_freq_mhz,emc_freq_mhz
    tune run --replay v100.csv --cap 125W --goal energy
    """
    as_json = options.pop("as_json")
    try:
        with Interrupts(lambda text: click.echo(text, err=True)) as interrupts:
            from tuner.report.screen import Screen
            from tuner.session import Request, tune

            options["search"] = split_names(options["search"], "--search")
            options["values"] = unique(options["values"], "--values")
            options["workload_args"] = unique(options.pop("workload_arg"), "--workload-arg")
            given = {name: value for name, value in options.items() if value is not None}
            finished = tune(Request(**given), Screen(quiet=as_json), interrupts)
    except KeyboardInterrupt:  # twice, before there was a study
        if as_json:
            print_json(NOTHING_YET)
        return 130
    if as_json:
        print_json(finished.document)
    return finished.exit_status
