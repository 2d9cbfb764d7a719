"""Commands whose options want a value that is one."""

from __future__ import annotations

from typing import Any

import click

from devices.errors import InputError


class TuneCommand(click.Command):
    """A command that refuses empty values, and whose errors of usage know which command they belong to."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            if not given.get("help") and not ctx.resilient_parsing:
                for param in self.params:
                    self._require_value(ctx, param, given.get(param.name or ""))
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click's parser leaves it out where an option lacks its argument
            raise

    def _require_value(self, ctx: click.Context, param: click.Parameter, value: Any) -> None:
        """Refuse an empty text, which a file or a name would take for something, and another option as a value.

        Raises:
            InputError, click.UsageError
        """
        values = value if isinstance(value, list | tuple) else (value,)
        metavar = param.make_metavar(ctx)
        if not isinstance(param, click.Option):
            if "" in values:
                raise InputError(f"{metavar.rstrip('.')} is empty", hint=f"{ctx.command_path} --help")
            return
        option = max(param.opts, key=len)
        if "" in values:
            leave = "" if param.required else f", or leave {option} out"
            raise InputError(f"{option} is empty", hint=f"{option} {metavar}{leave}")
        options = {name for other in self.params for name in other.opts if name.startswith("--")}
        if not param.is_flag and options & {text for text in values if isinstance(text, str)}:
            raise click.BadOptionUsage(option, f"Option '{option}' requires an argument.", ctx)


class TuneGroup(click.Group):
    """A group of such commands."""

    command_class = TuneCommand
