"""The files of a comparison: checked before hours of studies, written whole or not at all after them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devices.errors import TunerError
from tuner.arena.compare import Compared
from tuner.arena.study_run import ArenaError
from tuner.files import check_files, write_text
from tuner.report.arena_plot import check_plot, draw_regret


@dataclass(frozen=True)
class ArenaFiles:
    """Where a comparison is written to; None: nowhere.

    Attributes:
        document: The JSON list.
        plot: The figure; its suffix is its format.
    """

    document: Path | None = None
    plot: Path | None = None

    def check(self, inputs: Sequence[Path]) -> None:
        """Whether all can be written without losing an input or each other.

        Raises:
            InputError: a file that cannot be written, is read too, or is named twice; an unknown suffix.
            UnsupportedError: matplotlib is not installed.
        """
        check_files([("--json", self.document), ("--plot", self.plot)], read=[("a profile", path) for path in inputs])
        if self.plot is not None:
            check_plot(self.plot)

    def write(self, compared: Compared) -> Iterator[tuple[str, Path]]:
        """Write all that was asked for, and tell what and where; nothing where a comparison ended before its first
        study did.

        Raises:
            InputError: a file cannot be written.
            ArenaError: the figure cannot be drawn; the document is written.
        """
        if compared.partial and not compared.runs:
            return
        if self.document is not None:
            text = json.dumps(compared.to_json(), indent=2, allow_nan=False) + "\n"
            write_text(text, self.document, "--json")
            yield "written", self.document
        if self.plot is not None and compared.runs:
            try:
                draw_regret(compared, self.plot)
            except TunerError:
                raise
            except (
                Exception
            ) as error:  # of matplotlib, in which much can go wrong: hours of studies must not go with it
                raise ArenaError(
                    f"the figure {self.plot} cannot be drawn: {type(error).__name__}: {error}",
                    hint="leave --plot out; --json FILE keeps the figures",
                ) from error
            yield "drawn", self.plot
