"""`tune devices`: what can be named with `--device`."""

from __future__ import annotations

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import json_option, print_json


@click.command(cls=TuneCommand)
@json_option
def devices(as_json: bool) -> None:
    """List the devices: names, knobs, presets, and who would answer here."""
    from tuner.report.devices import devices_document, print_devices

    document = devices_document()
    if as_json:
        print_json(document)
    else:
        print_devices(document)
