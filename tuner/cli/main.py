"""The group `tune`, and how its errors reach the user."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, NoReturn

import click

from devices.errors import InputError, TunerError
from tuner.cli.options import KEPT
from tuner.report.streams import prepare, silence

EXIT_OK, EXIT_NO, EXIT_INPUT, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("tuner.cli.run:run", "Find the best setting under a cap, and freeze it."),
    "train": ("tuner.cli.train:train", "Train with a frozen config: accumulation and learning rate to match."),
    "record": ("tuner.cli.record:record", "Measure a grid of settings into a profile."),
    "compare": ("tuner.cli.compare:compare", "Compare strategies on recorded profiles."),
    "show": ("tuner.cli.studies:show", "Show a study: its trials and what it recommends."),
    "list": ("tuner.cli.studies:list_studies", "List the studies."),
    "export": ("tuner.cli.studies:export", "Print a study or a frozen config as JSON, YAML or CSV."),
    "profile": ("tuner.cli.profile:profile", "Import, check and show recorded profiles."),
    "doctor": ("tuner.cli.doctor:doctor", "Say what this machine is as a device, and what is wrong."),
    "devices": ("tuner.cli.devices:devices", "List the devices, their knobs and presets."),
    "fake-board": ("tuner.cli.fake_board:fake_board", "Serve a folder that behaves as the files of a board."),
}
"""Name -> (module:attribute, short help): `tune --help` imports no command."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="taste-tuner", prog_name="tune")
def cli() -> None:
    """Find the GPU frequency and the batch size that train fastest under a power cap, and train with them.

    \b
    tune run --device jetson-orin --cap 7W         on a board, or its emulation where none is here
    tune run --device cpu --workload digits-cnn    this machine: the batch size alone
    tune run --replay PROFILE.csv --cap 125W       answered from a recorded profile
    tune train frozen.json                         the full training with what was found
    tune compare PROFILE.csv --cap 25%             strategies against each other on recorded profiles

    Exit status: 0 done, 1 the answer is no, 2 retype something, 3 device or store failed, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `tune` and leave the process with its exit status."""
    prepare()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    code = _run(arguments, _wants_json(arguments))
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left to do takes milliseconds
    try:
        sys.stdout.flush()
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            click.echo(f"error: the output could not be written: {error.strerror}", err=True)
            code = EXIT_FAILED
    sys.exit(code)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether standard output is for one JSON document; `compare` writes it to a file, or there if the file is `-`."""
    if arguments[:1] == ["compare"]:
        return "--json=-" in arguments or ("--json", "-") in pairwise(arguments)
    return "--json" in arguments


def _run(arguments: Sequence[str], as_json: bool) -> int:
    try:
        code = cli.main(args=list(arguments), prog_name="tune", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_OK
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command
        click.echo(error.format_message(), err=True)
        return EXIT_INPUT
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "tune"
        _report(as_json, "usage", error.format_message(), f"{command} --help")
        return EXIT_INPUT
    except TunerError as error:
        _report(as_json, error.kind, error.message, error.hint, error.state.get(KEPT))
        return EXIT_INPUT if isinstance(error, InputError) else EXIT_FAILED
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        silence(sys.stdout)
        return EXIT_OK
    except Exception as error:
        if os.environ.get("TUNER_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            silence(sys.stdout)
        message = f"internal error: {type(error).__name__}: {error}"
        _report(as_json, "internal", message, "TUNER_DEBUG=1 shows where")
        return EXIT_FAILED


def _report(as_json: bool, kind: str, message: str, hint: str | None, kept: Mapping[str, Any] | None = None) -> None:
    if as_json:
        document: dict[str, Any] = {"error": {"kind": kind, "message": message, "hint": hint}, **(kept or {})}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(f"error: {message}" + (f"\n  hint: {hint}" if hint else ""), err=True)
