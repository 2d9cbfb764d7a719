"""`python -m experiments.fit_boards BOARD` prints published and emulated figures, and the parameters fitted anew."""

from __future__ import annotations

import click

from devices.catalog import find_board
from experiments.fit_boards import anchors, orin_nano, sweeps
from experiments.fit_boards.fitting import Fit, fitted, with_parameters

FITS: dict[str, Fit] = {
    "jetson-orin-nano": orin_nano.FIT,
    "jetson-agx-xavier": sweeps.AGX_XAVIER_FIT,
    "jetson-tx2": sweeps.TX2_FIT,
    **anchors.FITS,
}


@click.command()
@click.argument("name", metavar="BOARD", type=click.Choice(sorted(FITS)))
def main(name: str) -> None:
    """Fit the parameters of an emulated board to published figures."""
    board = find_board(name)
    assert board is not None, name
    fit = FITS[name]
    click.echo("as in the catalog")
    fit.report(board)
    values = fitted(board, fit)
    click.echo("\nfitted anew")
    for parameter, value in values.items():
        click.echo(f"{parameter} = {value:.4g}")
    fit.report(with_parameters(board, values))


if __name__ == "__main__":
    main()
