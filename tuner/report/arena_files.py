"""The files of a comparison: checked before hours of studies, written whole or not at all after them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devices.errors import InputError
from tuner.arena.compare import Compared
from tuner.frozen import require_writable, write_text
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
        files = {path.resolve(): "a profile" for path in inputs}
        for option, path in (("--json", self.document), ("--plot", self.plot)):
            if path is None:
                continue
            if path.resolve() in files:
                other = files[path.resolve()]
                raise InputError(f"{option} and {other} are the same file {path}", hint=f"another file for {option}")
            files[path.resolve()] = option
            require_writable(path)
        if self.plot is not None:
            check_plot(self.plot)

    def write(self, compared: Compared) -> Iterator[tuple[str, Path]]:
        """Write all that was asked for, and tell what and where; nothing of an interrupted comparison.

        Raises:
            InputError: a file cannot be written.
        """
        if compared.interrupted:
            return
        if self.document is not None:
            write_text(json.dumps(compared.to_json(), indent=2, allow_nan=False) + "\n", self.document)
            yield "written", self.document
        if self.plot is not None and compared.runs:
            draw_regret(compared, self.plot)
            yield "drawn", self.plot
