"""`tune show`, `tune list`, `tune export`: what the store and a frozen config hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import json_option, print_json, store_option

if TYPE_CHECKING:
    from tuner.store import Store

LIBRARIES = ["huggingface", "lightning", "accelerate", "env"]


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
@click.option("--format", "form", type=click.Choice(["json", "yaml", "csv"]), help="[default: json]")
@click.option("--to", type=click.Choice(LIBRARIES), help="What is recommended, as the arguments of another library.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of the screen.")
@store_option
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def export(what: str, form: str | None, to: str | None, out: Path | None, store: str | None) -> int:
    """Print a study (its whole document) or a frozen config in another format, or as arguments.

    A study as CSV is a recorded profile, which `tune run --replay` takes.

    \b
    --to huggingface   TrainingArguments(output_dir, **arguments)
    --to lightning     Trainer(**arguments["trainer"]); batch_size, learning_rate
    --to accelerate    Accelerator(**arguments["accelerator"]); the same
    --to env           lines TUNER_MICRO_BATCH=32: set -a; . ./FILE
    """
    from tuner.files import check_files, write_text
    from tuner.store import open_store

    def open_it() -> Store:
        return open_store(store, create=False)

    check_files([("--out", out)], read=[("what is exported", Path(what) if Path(what).is_file() else None)])
    if to is None:
        from tuner.library import export_text

        text = export_text(what, form or "json", open_it)
    else:
        from tuner.export import exported

        found = exported(what, to, form, open_it)
        for note in found.notes:
            click.echo(f"note: {note}", err=True)
        if not found.complete:
            click.echo(found.text, nl=False)
            return 1
        text = found.text
    if out is None:
        click.echo(text, nl=False)
        return 0
    write_text(text, out)
    click.echo(f"wrote {out}", err=True)
    return 0
