"""A recorded profile that grows burst by burst, on disk after each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devices.device import Setting
from devices.errors import InputError, ProfileError, StoreError
from devices.measurement import Measurement, Status
from devices.profile import (
    Profile,
    ProfileMetadata,
    ProfileRow,
    format_setting,
    profile_text,
    read_profile,
    read_text,
    write_profile,
)

REMARKS = "remarks"
"""Metadata key of what the columns cannot hold: `batch_size=4, burst 1, attempt 2: crashed: reason | ...`."""
MAX_REASON = 160  # characters of a reason in the file
_SETTLED = 2  # attempts of a failed row of which the file does not tell them: it is not repeated
_ANOTHER = "another name with -o, or --fresh, which keeps the old file under a name with a number"

Key = tuple[float, ...]


@dataclass(frozen=True)
class RecordedBurst:
    """A row with what the columns of a profile cannot hold: the attempts it took, and why it failed."""

    row: ProfileRow
    attempts: int = 1
    reason: str | None = None


class RecordFile:
    """A profile that grows by one burst at a time. The file is read once, and written by `save` only.

    Args:
        path: The file; where there is one, its rows are kept.
        metadata: What the file is to say. Of a file that exists, origin, licence, date and further keys are kept.
        knob_names: The knob columns, in order.
        compared: Keys of the metadata's `extra` that must be the same in an existing file, or absent from both.
        fresh: Do not go on with a file that exists; `set_aside` renames it to `kept_as`.

    Raises:
        InputError: the file is no profile, or one of something else; the message says what differs.
    """

    def __init__(
        self,
        path: Path,
        metadata: ProfileMetadata,
        knob_names: Sequence[str],
        *,
        compared: Sequence[str] = (),
        fresh: bool = False,
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.kept_as = _free_name(path) if fresh and path.exists() else None
        self._knob_names = tuple(knob_names)
        self._bursts: dict[Key, list[RecordedBurst]] = {}
        self._text: str | None = None  # of the file as this object knows it
        if path.exists() and not fresh:
            self._load(compared)

    def bursts(self, setting: Setting) -> Sequence[RecordedBurst]:
        """Those at `setting`, one for each replicate, in the order of the replicates."""
        return self._bursts.get(self._key(setting), ())

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        """All rows, by setting, replicates together."""
        return tuple(burst.row for key in sorted(self._bursts) for burst in self._bursts[key])

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why bursts failed, each reason once: `oom: no memory`."""
        found = (b for key in sorted(self._bursts) for b in self._bursts[key] if not b.row.ok)
        return tuple(dict.fromkeys(f"{b.row.status.value}: {b.reason}" if b.reason else b.row.status for b in found))

    def add(self, setting: Setting, measurement: Measurement, *, again: bool = False) -> None:
        """Add the row of `measurement`; `again`: it takes the place of the last row at `setting`."""
        bursts = self._bursts.setdefault(self._key(setting), [])
        attempts = bursts.pop().attempts + 1 if again else 1
        row = ProfileRow.from_measurement({name: setting[name] for name in self._knob_names}, measurement)
        reason = " ".join((measurement.reason or "").replace("|", "/").split())[:MAX_REASON].rstrip()
        bursts.append(RecordedBurst(row, attempts, reason or None))

    @property
    def profile(self) -> Profile | None:
        """The rows as a profile; None while none of them is ok: such a file could not be read."""
        rows = self.rows
        if not any(row.ok for row in rows):
            return None
        remarks = [
            f"{place}: {burst.row.status.value}" + (f": {burst.reason}" if burst.reason else "")
            for key in sorted(self._bursts)
            for index, burst in enumerate(self._bursts[key])
            if (place := _place(burst.row.setting, index, burst.attempts)) and (not burst.row.ok or burst.attempts > 1)
        ]
        extra = {**self.metadata.extra, **({REMARKS: " | ".join(remarks)} if remarks else {})}
        return Profile(replace(self.metadata, extra=extra), self._knob_names, rows)

    def set_aside(self) -> None:
        """Rename the file that is not gone on with, if there is one.

        Raises:
            InputError: it cannot be renamed.
        """
        if self.kept_as is None:
            return
        try:
            self.path.rename(self.kept_as)
        except OSError as error:
            raise InputError(f"cannot rename {self.path}: {error.strerror}", hint="another name with -o") from error
        self.kept_as = None

    def save(self) -> None:
        """Write the file, whole or not at all; nothing while no row is ok.

        Raises:
            StoreError: it cannot be written, or was changed since this object read or wrote it.
        """
        profile = self.profile
        if profile is None:
            return
        try:
            if self.path.exists() and read_text(self.path) != self._text:
                raise StoreError(
                    f"{self.path} was changed by somebody else while it was recorded; it is left as it is",
                    hint="let one process at a time record into a file",
                )
            write_profile(profile, self.path)
        except ProfileError as error:
            raise StoreError(error.message, hint="make room or mend the folder, then repeat the command") from error
        self._text = profile_text(profile)

    def _key(self, setting: Setting) -> Key:
        return tuple(setting[name] for name in self._knob_names)

    def _load(self, compared: Sequence[str]) -> None:
        try:
            self._text = read_text(self.path)
            old = read_profile(self.path)
        except ProfileError as error:
            raise InputError(f"cannot go on with what is there: {error.message}", hint=_ANOTHER) from error
        differing = _differences(old, self.metadata, self._knob_names, compared)
        if differing:
            raise InputError(f"{self.path} records something else: {'; '.join(differing)}", hint=_ANOTHER)
        ours, theirs = self.metadata, old.metadata
        origins = [text for text in (theirs.origin, ours.origin) if text]
        if theirs.origin and _maker(theirs.origin) == _maker(ours.origin):  # begun by the same command on another day
            origins = [theirs.origin]
        self.metadata = replace(
            ours,
            origin="; ".join(origins) or None,
            licence=theirs.licence or ours.licence,
            recorded_at=theirs.recorded_at or ours.recorded_at,
            extra={**{k: v for k, v in theirs.extra.items() if k != REMARKS}, **ours.extra},
        )
        remarks = _read_remarks(theirs.extra.get(REMARKS, ""))
        for row in old.rows:
            row = replace(row, setting={name: row.setting[name] for name in self._knob_names})
            bursts = self._bursts.setdefault(self._key(row.setting), [])
            unknown = 1 if row.ok else _SETTLED
            attempts, reason = remarks.get(_place(row.setting, len(bursts)), (unknown, None))
            bursts.append(RecordedBurst(row, attempts, reason))


def _maker(origin: str | None) -> str:
    return (origin or "").rpartition(" on ")[0]


def _place(setting: Setting, index: int, attempts: int | None = None) -> str:
    """How the remarks name a row."""
    return f"{format_setting(setting)}, burst {index + 1}" + (f", attempt {attempts}" if attempts else "")


def _read_remarks(text: str) -> Mapping[str, tuple[int, str | None]]:
    """Attempts and reason by `_place`. What cannot be read is left out: the rows themselves are whole without it."""
    found: dict[str, tuple[int, str | None]] = {}
    for entry in text.split(" | "):
        head, _, what = entry.partition(": ")
        place, _, attempts = head.rpartition(", attempt ")
        status, _, reason = what.partition(": ")
        if attempts.isdecimal() and status in tuple(Status):
            found[place] = (int(attempts), reason or None)
    return found


def _differences(
    old: Profile, metadata: ProfileMetadata, knob_names: Sequence[str], compared: Sequence[str]
) -> list[str]:
    """What an existing profile says differently: `workload is resnet18 there, digits-cnn now`."""
    was: dict[str, str | None] = {"knobs": ", ".join(sorted(old.knob_names))}
    now_: dict[str, str | None] = {"knobs": ", ".join(sorted(knob_names))}
    for key in ("device", "workload", "throughput_unit", "provenance"):
        was[key], now_[key] = getattr(old.metadata, key), getattr(metadata, key)
    for key in {**metadata.extra, **dict.fromkeys(compared)}:
        if key in old.metadata.extra or key in compared:
            was[key], now_[key] = old.metadata.extra.get(key), metadata.extra.get(key)
    words = {key: (_words(was[key]), _words(now_[key])) for key in was}
    return [f"{key} is {there} there, {here} now" for key, (there, here) in words.items() if there != here]


def _words(text: str | None) -> str:
    return " ".join(text.split()) if text else "not stated"  # as a file holds it


def _free_name(path: Path) -> Path:
    """`PROFILE.1.csv`, or the next number that is free."""
    number = 1
    while (name := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    return name
