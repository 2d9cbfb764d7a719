"""The user's own files that a workload is made of: what tells one version of them from another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from devices.agent.workloads import file_of


def file_digests(spec: str) -> dict[str, str]:
    """The SHA-256 of the file of `FILE.py:FACTORY` by its path as written; empty for any other spec."""
    if file_of(spec) is None:
        return {}
    path = spec.rpartition(":")[0] or spec
    digest = _digest(path)
    return {} if digest is None else {path: digest}


def _digest(path: str) -> str | None:
    """The SHA-256 of a workload's file, or None where it cannot be read."""
    absolute = file_of(path)
    try:
        return hashlib.sha256(Path(absolute or path).read_bytes()).hexdigest()
    except OSError:
        return None


def changed_files(files_sha256: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of a frozen config's `files_sha256` whose files are others now; one that is gone is not among them."""
    now_there = {path: _digest(path) for path in files_sha256}
    return tuple(path for path, digest in now_there.items() if digest not in (None, files_sha256[path].lower()))
