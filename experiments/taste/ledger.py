"""Results that are on disk as soon as they exist, so that an interrupted experiment goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuner.files import write_text


class Ledger:
    """Results by what decides them: a file of one JSON object a line, written whole after every result.

    Args:
        path: The file; what it holds is known.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, Any] = {}
        if path.exists():
            entries = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            self._lines = {_text(entry["key"]): entry["result"] for entry in entries}

    def recall(self, key: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The result of `key`; made, and written, where it is not known. Both are JSON objects."""
        text = _text(key)
        if text not in self._lines:
            self._lines[text] = dict(make())
            lines = [f'{{"key": {known}, "result": {json.dumps(result)}}}\n' for known, result in self._lines.items()]
            write_text("".join(lines), self._path)
        return dict(self._lines[text])


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
