"""`tune doctor`: what this machine is as a device, and what is wrong with it."""

from __future__ import annotations

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import json_option, print_json, root_option


@click.command(cls=TuneCommand)
@click.option("--device", metavar="NAME", help="What the machine should be; a board of another family is a fault.")
@root_option
@click.option("--restore", is_flag=True, help="Put back the clocks that a killed run left changed.")
@click.option("--python", metavar="PATH", help="The Python that trains, with its torch.")
@json_option
def doctor(device: str | None, sysfs_root: str, restore: bool, python: str | None, as_json: bool) -> int:
    """Say what this machine is, what can be set and measured on it, and what is wrong, each with what mends it.

    \b
    tune doctor
    tune doctor --device jetson-orin --python ~/venv/bin/python
    sudo tune doctor --restore

    Nothing is written, except by --restore. Exit status 1: something is wrong.
    """
    from tuner.doctor import consult
    from tuner.report.doctor import print_report

    report = consult(device, sysfs_root, restore=restore, python=python)
    if as_json:
        print_json(report)
    else:
        print_report(report)
    return 1 if report["problems"] else 0
