"""`tune fake-board`: a folder that behaves as the files of a board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuner.cli.command import TuneCommand


@click.command(cls=TuneCommand)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.option(
    "--model", default="jetson-orin-nano", metavar="M", show_default=True, help="The board: see tune devices."
)
@click.option("--preset", metavar="P", help="The power mode it is in.  [default: the vendor's]")
@click.option(
    "--kernel", type=click.Choice(["4.9", "5.10", "5.15"]), help="Of JetPack 4, 5 or 6.  [default: the board's]"
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[@BURST[:SECONDS]]",
    help="Something that goes wrong, in that burst, so late; @0: from the beginning. --fault list names all.",
)
@click.option("--speed", type=click.FloatRange(0.1, 50.0), metavar="X", help="How fast its time runs.  [default: 10]")
@click.option("--seed", type=int, default=0, metavar="N", show_default=True, help="Of its noise.")
@click.option("--plain", is_flag=True, help="Plain files of that board instead, which do nothing; no FUSE is needed.")
def fake_board(
    directory: Path,
    command: tuple[str, ...],
    faults: tuple[str, ...],
    speed: float | None,
    plain: bool,
    **options: Any,
) -> int:
    """Serve a fake board in the folder DIR, until CMD has ended or Ctrl-C.

    What runs under --sysfs-root DIR is emulated, never measured: speed and power come from the model of the board.

    \b
    tune fake-board board -- tune run --device jetson-orin --sysfs-root board --cap 7W
    tune fake-board board --model jetson-nano --fault throttle-alert@2:6
    """
    from devices.fake.faults import FAULTS

    if "list" in faults:
        for name, kind in FAULTS.items():
            click.echo(f"{name:18} {kind.what}")
        return 0
    if plain:
        from devices.fake.board import FakeBoard
        from devices.fake.tree import plant

        plant(FakeBoard(options.pop("model"), faults=faults, **options), directory)
        return 0
    from devices.fake.fuse import SPEED, serve

    def ready() -> None:
        if not command:
            click.echo(f"a fake board is in {directory}; Ctrl-C ends it", err=True)

    model = options.pop("model")
    return serve(directory, model, command, faults=faults, speed=speed or SPEED, ready=ready, **options)
