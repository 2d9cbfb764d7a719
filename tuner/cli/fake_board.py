"""`tune fake-board`: a folder that behaves as the files of a board."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from devices.errors import InputError
from tuner.cli.command import TuneCommand
from tuner.cli.options import Number


def _list_faults(ctx: click.Context, param: click.Parameter, faults: tuple[str, ...]) -> tuple[str, ...]:
    """`--fault list` names all, whatever else is given."""
    if "list" in faults:
        from devices.fake.faults import FAULTS
        from tuner.report.console import console

        out = console()
        for name, kind in FAULTS.items():
            out.print(f"{name:18} {kind.what}")
        ctx.exit(0)
    return faults


@click.command(cls=TuneCommand)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.option(
    "--model", default="jetson-orin-nano", metavar="M", show_default=True, help="The board: see tune devices."
)
@click.option("--preset", metavar="P", help="The power mode it is in.  [default: the vendor's]")
@click.option(
    "--kernel", metavar="V", help="Of a Jetson: 4.9, 5.10 or 5.15, as in JetPack 4, 5 or 6.  [default: the board's]"
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    is_eager=True,
    callback=_list_faults,
    metavar="NAME[@BURST[+COUNT][:SECONDS]]",
    help="Something that goes wrong, in that burst (from 1 on) and COUNT in a row, so late; may be repeated. NAME@0: "
    "from the beginning. --fault list names all.",
)
@click.option("--speed", type=Number(0.1, 50.0), metavar="X", help="How fast its time runs.  [default: 10]")
@click.option("--seed", type=int, default=0, metavar="N", show_default=True, help="Of its noise.")
@click.option("--plain", is_flag=True, help="Plain files of that board instead, which do nothing; no FUSE is needed.")
def fake_board(
    directory: Path,
    command: tuple[str, ...],
    faults: tuple[str, ...],
    speed: float | None,
    plain: bool,
    model: str,
    **options: Any,
) -> int:
    """Serve a fake board in the folder DIR, until CMD has ended or Ctrl-C.

    DIR is an empty folder, or one that does not exist yet. What runs under --sysfs-root DIR is emulated, never
    measured: speed and power come from the model of the board.

    \b
    tune fake-board fb -- tune run --device jetson-orin --sysfs-root fb --cap 7W
    tune fake-board fb --model jetson-nano --fault throttle-alert@2:6
    """
    if plain:
        from devices.fake.board import FakeBoard
        from devices.fake.tree import plant

        _refuse_lively(command, speed, faults)
        plant(FakeBoard(model, faults=faults, **options), directory)
        click.echo(f"the files of {model} are in {directory}", err=True)
        return 0
    from devices.fake.fuse import SPEED, serve

    def ready() -> None:
        if not command:
            click.echo(f"a fake board is in {directory}; Ctrl-C ends it", err=True)

    return serve(directory, model, command, faults=faults, speed=speed or SPEED, ready=ready, **options)


def _refuse_lively(command: tuple[str, ...], speed: float | None, faults: tuple[str, ...]) -> None:
    """Refuse what plain files cannot do. Raises InputError."""
    from devices.fake.schedule import parse

    if command:
        raise InputError(
            "--plain plants files and ends, so it runs no command",
            hint=f"leave --plain out, or afterwards: {shlex.join(command)}",
        )
    if speed is not None:
        raise InputError("the time of plain files does not run", hint="leave --speed or --plain out")
    later = [fault.name for fault in parse(faults) if fault.burst > 0]
    if later:
        raise InputError(
            f"--plain files see no burst, in which {later[0]} could happen", hint=f"{later[0]}@0, or leave --plain out"
        )
