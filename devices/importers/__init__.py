"""Importers of public traces: each turns one file of somebody else's format into a recorded profile."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from devices.errors import InputError
from devices.importers.perseus import import_perseus
from devices.importers.zeus import import_zeus
from devices.profile import Profile

Importer = Callable[[str | os.PathLike[str], str | None], Profile]

IMPORTERS: Mapping[str, Importer] = {"zeus": import_zeus, "perseus": import_perseus}
"""Importers by the name of their format; each takes the file and the workload inside it."""


def find_importer(form: str) -> Importer:
    """The importer of a format.

    Raises:
        InputError: no such format.
    """
    if form not in IMPORTERS:
        raise InputError(f"unknown format '{form}'", hint=f"--from {' | '.join(IMPORTERS)}")
    return IMPORTERS[form]


__all__ = ["IMPORTERS", "Importer", "find_importer", "import_perseus", "import_zeus"]
