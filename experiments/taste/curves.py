"""Throughput against batch size on this CPU, by real bursts; and what a study finds without measuring them all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devices.device import BATCH_KNOB, Device
from devices.errors import DeviceError
from devices.measurement import Status
from devices.profile import Profile, read_profile
from experiments.taste.ledger import Ledger
from experiments.taste.subjects import Subject
from tuner import Study
from tuner.frozen import freeze
from tuner.recording import Recording, RecordingProgress

NEAR = 0.02  # of the ceiling: a batch this much slower has reached it

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A batch size: the throughput in samples/s of each of its bursts, and their mean."""

    batch: int
    bursts: tuple[float, ...]

    @property
    def throughput(self) -> float:
        """Mean over the bursts, samples/s."""
        return statistics.fmean(self.bursts)


@dataclass(frozen=True)
class Curve:
    """Throughput against batch size.

    Attributes:
        points: Batch sizes that train, ascending.
        out_of_memory: The smallest batch size that runs out of memory, or None where none of those tried does.
    """

    points: tuple[Point, ...]
    out_of_memory: int | None = None

    @property
    def ceiling(self) -> Point:
        """The highest mean throughput."""
        return max(self.points, key=lambda point: point.throughput)

    @property
    def knee(self) -> Point:
        """The smallest batch size within 2 % of the ceiling."""
        return next(point for point in self.points if point.throughput >= (1 - NEAR) * self.ceiling.throughput)

    @property
    def largest(self) -> Point:
        """The largest batch size that trains."""
        return self.points[-1]

    @property
    def spread(self) -> float | None:
        """Relative standard deviation from burst to burst at the same batch size; None with one burst at each."""
        found = [p for p in self.points if len(p.bursts) > 1]
        if not found:
            return None
        squares = [statistics.variance(p.bursts) / p.throughput**2 for p in found]
        return math.sqrt(statistics.fmean(squares))

    def at(self, batch: int) -> Point | None:
        """The point of a batch size; None where it was not measured or does not train."""
        return next((point for point in self.points if point.batch == batch), None)


def curve_of(profile: Profile) -> Curve:
    """The curve that a profile with the batch size as its only knob records."""
    bursts: dict[int, list[float]] = {}
    for row in profile.ok_rows:
        bursts.setdefault(int(row.setting[BATCH_KNOB]), []).append(row.throughput or 0.0)
    failed = [int(row.setting[BATCH_KNOB]) for row in profile.rows if row.status is Status.OOM]
    return Curve(tuple(Point(batch, tuple(bursts[batch])) for batch in sorted(bursts)), min(failed, default=None))


def profile_path(subject: Subject, folder: Path) -> Path:
    """Where a subject's curve is recorded."""
    return folder / f"{subject.name}.csv"


def measure_curve(subject: Subject, device: Device, folder: Path, tell: Tell) -> Curve:
    """Record every batch size of a subject into a profile in `folder`, or go on with it.

    Raises:
        DeviceError: the device was lost, failed burst after burst, or trains at no batch size.
    """
    path = profile_path(subject, folder)
    recording = Recording(device, subject.workload, path, repeats=subject.repeats, plan=subject.plan)

    def progress(at: RecordingProgress) -> None:
        found = at.measurement
        said = f"{found.throughput:.4g} samples/s" if found.ok and found.throughput else found.status.value
        tell(f"  {at.done}/{at.total} batch {at.setting[BATCH_KNOB]:g}: {said}")

    if not recording.run(progress).document["ok"]:
        raise DeviceError(f"{subject.name} trains at no batch size of {subject.batches}")
    return curve_of(read_profile(path))


def tune(subject: Subject, device: Device, ledger: Ledger) -> dict[str, Any]:
    """What a study of its own, which knows nothing of the curve, finds: `batch`, `bursts` and `seconds` it took, why it
    `stopped`, and the `frozen` config.

    Raises:
        DeviceError: the device was lost, or nothing could be recommended.
    """

    def make() -> dict[str, Any]:
        with Study(device, subject.workload, bursts=subject.bursts, plan=subject.plan, baseline=False) as study:
            outcome = study.run()
        found = device.inspect(subject.workload)
        if outcome.verdict.recommended is None or found is None:
            raise DeviceError(f"the study of {subject.name} recommends nothing")
        frozen = freeze(outcome, subject.workload, found.to_reference(), found.train_samples)
        document = outcome.to_json()
        return {
            "batch": int(frozen["setting"][BATCH_KNOB]),
            "bursts": study.bursts_made,
            "seconds": document["search_time_s"],
            "stopped": document["stopped"],
            "frozen": frozen,
        }

    key = {"study": subject.workload.to_json(), "batches": subject.batches, "bursts": subject.bursts}
    return ledger.recall({**key, "plan": subject.plan and subject.plan.to_json()}, make)
