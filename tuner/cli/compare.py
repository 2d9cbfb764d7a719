"""`tune compare`: strategies against each other on recorded profiles."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import KEPT, Whole, noise_options, print_json, split_names

if TYPE_CHECKING:
    from tuner.arena import Contest

_STDOUT = Path("-")


class GreedyTransfer(TuneCommand):
    """A command whose `--transfer` takes all files up to the next option, where the profiles come first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-"):
            args = repeat_transfer(args)
        return super().parse_args(ctx, args)


def repeat_transfer(arguments: Sequence[str]) -> list[str]:
    """`--transfer a b` as `--transfer a --transfer b`."""
    found: list[str] = []
    following = -1  # files after the latest --transfer; -1 where it does not apply
    for argument in arguments:
        if argument.startswith("-"):
            following = 0 if argument == "--transfer" else 1 if argument.startswith("--transfer=") else -1
        elif following >= 0:
            found += ["--transfer"] if following else []
            following += 1
        found.append(argument)
    return found


@click.command(cls=GreedyTransfer)
@click.argument("profiles", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PROFILE.csv...")
@click.option(
    "--cap",
    metavar="W[,W...]",
    help="Caps in watts (7W), or shares of the range of each profile's mean power (25%).  [default: no cap]",
)
@click.option(
    "--cap-on",
    type=click.Choice(["mean", "p95", "peak"]),
    help="Statistic the caps hold on.  [default: p95 where recorded, else peak, else mean]",
)
@click.option(
    "--strategy",
    metavar="S[,S...]",
    help="Strategies; lut measures every setting, whatever --bursts says.  [default: that of tune run]",
)
@click.option(
    "--seeds", type=Whole(min=1), default=10, show_default=True, metavar="N", help="Studies of each: 0 to N-1."
)
@click.option(
    "--bursts",
    type=Whole(min=1),
    default=25,
    show_default=True,
    metavar="N",
    help="Budget of a study, confirmation included.",
)
@noise_options
@click.option(
    "--transfer",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PROFILE.csv...",
    help="Records every study may learn from first, of the same device or workload.",
)
@click.option("--jobs", type=Whole(min=1), metavar="N", help="Processes.  [default: one a usable core]")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw regret against bursts, seconds and joules: .png, .svg or .pdf.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write one JSON list of all studies; - is standard output.",
)
def compare(**options: Any) -> int:
    """Compare strategies on recorded profiles: strategies x profiles x caps x seeds, judged by recorded values.

    \b
    tune compare v100.csv --cap 25%,50% --strategy ax,sobol --noise-power 0.01
    tune compare orin.csv --cap 7W --transfer other.csv --plot regret.svg
    """
    to_stdout = options["json_file"] == _STDOUT
    try:
        with _Interruptible() as interruptible:
            return _compare(options, to_stdout, interruptible)
    except KeyboardInterrupt:  # before there was a study
        if to_stdout:
            print_json([])
        click.echo("interrupted", err=True)
        return 130


class _Interruptible:
    """While entered, Ctrl-C, and what else ends a command, is an exception: processes have to be ended with it."""

    def __init__(self) -> None:
        self._held = False
        self._previous: dict[int, Any] = {}

    def hold(self) -> None:
        """Ignore it from now on: what is left takes seconds, and hours would be lost with it."""
        self._held = True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._previous[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


def _compare(options: dict[str, Any], to_stdout: bool, interruptible: _Interruptible) -> int:
    from devices.errors import TunerError
    from tuner.arena.compare import compare as run_contest
    from tuner.report.arena import ArenaScreen
    from tuner.report.arena_files import ArenaFiles

    files = ArenaFiles(document=None if to_stdout else options["json_file"], plot=options["plot"])
    files.check(inputs=(*options["profiles"], *options["transfer"]))
    contest = _contest(options)
    screen = ArenaScreen(quiet=to_stdout)
    screen.begin(contest)
    failure: TunerError | None = None
    try:
        with screen.progress(contest) as on_run:
            compared = run_contest(contest, options["jobs"], on_run)
    except TunerError as error:
        if "compared" not in error.state:
            raise
        failure, compared = error, error.state["compared"]
    interruptible.hold()
    screen.end(compared)
    try:
        for what, path in files.write(compared):
            screen.wrote(what, str(path))
    except TunerError as error:
        failure = failure or error
    if failure is not None:
        failure.state[KEPT] = {"runs": compared.to_json()}
        raise failure
    if to_stdout:
        print_json(compared.to_json())
    return compared.exit_status


def _contest(options: dict[str, Any]) -> Contest:
    from tuner.arena import Contest, parse_caps, read_tables
    from tuner.strategies import DEFAULT_STRATEGY

    caps = () if options["cap"] is None else parse_caps(options["cap"])
    strategies = split_names(options["strategy"], "--strategy") or (DEFAULT_STRATEGY,)
    return Contest(
        tables=read_tables(options["profiles"]),
        strategies=strategies,
        caps=caps,
        seeds=options["seeds"],
        bursts=options["bursts"],
        noise_throughput=options["noise_throughput"] or 0.0,
        noise_power=options["noise_power"] or 0.0,
        cap_on=options["cap_on"],
        transfer=read_tables(options["transfer"]),
    )
