"""`tune profile`: recorded profiles imported, checked and shown."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli.command import TuneGroup
from tuner.cli.options import json_option, print_json

_FILE = click.Path(path_type=Path)


@click.group(cls=TuneGroup)
def profile() -> None:
    """Import, check and show recorded profiles (CSV tables of measurements)."""


@profile.command("import", short_help="Turn a public trace into a recorded profile.")
@click.option("--from", "form", required=True, metavar="FORMAT", help="zeus or perseus.")
@click.option("--workload", metavar="W", help="Which workload of the file; zeus: dataset/network/optimizer.")
@click.option("-o", "--out", type=_FILE, required=True, metavar="PROFILE.csv", help="The profile to write.")
@click.argument("file", type=_FILE)
@json_option
def import_(form: str, workload: str | None, out: Path, file: Path, as_json: bool) -> None:
    """Turn FILE, a public trace in another format, into a recorded profile."""
    from devices.importers import find_importer
    from devices.profile import profile_summary, write_profile
    from tuner.files import check_files
    from tuner.report.profile import summary_line

    check_files([("-o", out)], read=[("the file to import", file)])
    imported = find_importer(form)(file, workload)
    write_profile(imported, out)
    if as_json:
        print_json({"profile": str(out), **profile_summary(imported)})
    else:
        click.echo(f"wrote {out}: {summary_line(imported)}")


@profile.command(short_help="Look for faults in a profile.")
@click.argument("file", type=_FILE)
@json_option
def check(file: Path, as_json: bool) -> int:
    """Look for faults in FILE: outliers, gaps, duplicates, impossible units. Exit 1 where some are found."""
    from devices.profile import read_profile
    from devices.profile_check import check_profile
    from tuner.report.profile import findings_document, print_findings

    read = read_profile(file)
    findings = check_profile(read)
    if as_json:
        print_json(findings_document(findings))
    else:
        print_findings(read, findings)
    return int(any(finding.severity != "note" for finding in findings))


@profile.command(short_help="Show what a profile holds and can be used for.")
@click.argument("file", type=_FILE)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show what FILE holds and what it can be used for."""
    from devices.profile import profile_summary, read_profile
    from tuner.report.profile import print_profile

    read = read_profile(file)
    if as_json:
        print_json(profile_summary(read))
    else:
        print_profile(read)
