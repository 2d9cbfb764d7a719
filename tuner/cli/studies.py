"""`tune show`, `tune list`, `tune export`: what the store and a frozen config hold."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import json_option, print_json, store_option


@click.command(cls=TuneCommand)
@click.argument("study")
@store_option
@json_option
def show(study: str, store: str | None, as_json: bool) -> None:
    """Show STUDY: its trials and what it recommends. `tune list` gives the names."""
    from tuner.library import study_document
    from tuner.report.screen import print_study
    from tuner.store import open_store

    document = study_document(open_store(store, create=False), study)
    if as_json:
        print_json(document)
    else:
        print_study(document)


@click.command("list", cls=TuneCommand)
@store_option
@json_option
def list_studies(store: str | None, as_json: bool) -> None:
    """List the studies of the store, the oldest first."""
    from tuner.library import study_rows
    from tuner.report.screen import print_studies
    from tuner.store import open_store

    rows = study_rows(open_store(store, create=False))
    if as_json:
        print_json(rows)
    else:
        print_studies(rows)


@click.command(cls=TuneCommand)
@click.argument("what", metavar="STUDY|FROZEN.json")
@click.option("--format", "form", type=click.Choice(["json", "yaml", "csv"]), default="json", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of the screen.")
@store_option
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def export(what: str, form: str, out: Path | None, store: str | None) -> None:
    """Print a study (its whole document) or a frozen config in another format.

    A study as CSV is a recorded profile, which `tune run --replay` takes.
    """
    from tuner.files import check_files, write_text
    from tuner.library import export_text
    from tuner.store import open_store

    check_files([("--out", out)], read=[("what is exported", Path(what) if Path(what).is_file() else None)])
    text = export_text(what, form, lambda: open_store(store, create=False))
    if out is None:
        click.echo(text, nl=False)
        return
    write_text(text, out)
    click.echo(f"wrote {out}", err=True)
