"""Writing the CSV format."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

from devices.errors import ProfileError
from devices.profile._reader import KNOWN_KEYS
from devices.profile._table import METRICS, Profile, format_setting, number_text


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write `profile` to `path`, whole or not at all; an existing file is replaced.

    Raises:
        ProfileError: a value that is not finite, or a folder that cannot be written.
    """
    text = profile_text(profile)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        hint = "choose a folder that exists and can be written"
        raise ProfileError(f"{path} cannot be written: {error.strerror}", hint=hint, path=str(path)) from error


def profile_text(profile: Profile) -> str:
    """`profile` in the CSV format."""
    meta = profile.metadata
    keys: dict[str, Any] = {key: getattr(meta, key, None) for key in KNOWN_KEYS}
    keys["knobs"] = ", ".join(profile.knob_names)
    keys["default_setting"] = format_setting(meta.default_setting) if meta.default_setting else None
    keys |= meta.extra
    out = io.StringIO()
    for key, value in keys.items():
        if value is not None:
            out.write(f"# {key}: {' '.join(str(value).split())}\n")
    metrics = [m for m in METRICS if m == "throughput" or any(getattr(row, m) is not None for row in profile.rows)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*profile.knob_names, *metrics, "status"])
    for row in profile.rows:
        values = [getattr(row, metric) for metric in metrics]
        cells = ["" if value is None else number_text(value) for value in values]
        writer.writerow([*(number_text(value) for value in profile.key(row.setting)), *cells, row.status.value])
    return out.getvalue()
