"""A grid of settings measured into a recorded profile: the exhaustive way, of which a search is the shortcut."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devices.device import BurstPlan, Device, DeviceInfo, Setting, WorkloadSpec
from devices.errors import DeviceError, InputError, UnsupportedError
from devices.measurement import Measurement, Status, as_failed, fault
from devices.profile import Cell
from tuner.checks import check_cap, check_numbers
from tuner.files import require_writable
from tuner.goal import find_goal
from tuner.record import metadata_of
from tuner.record_file import RecordFile
from tuner.space import Space
from tuner.store import now
from tuner.study import MAX_FAILURES_IN_A_ROW
from tuner.sweep import REPEATED, Sweep
from tuner.workload_files import file_digests


@dataclass(frozen=True)
class RecordingProgress:
    """Told after every burst.

    Attributes:
        setting: Where it was made.
        measurement: What it found.
        done: Bursts of the grid that are in the file, or waiting to be repeated.
        total: What `done` will be at the end, as far as is known: batches beyond the memory are not in it.
        best: The fastest setting so far, within the cap.
    """

    setting: Setting
    measurement: Measurement
    done: int
    total: int
    best: Cell | None


RecordingSink = Callable[[RecordingProgress], None]


@dataclass(frozen=True)
class Recorded:
    """Where a recording stands when it ends.

    Attributes:
        document: What `tune record --json` prints. `rows` = `ok` + `failed`; `skipped`: settings left out because they
            would run out of memory; `duration_s`: seconds on the device in this run.
        reasons: Why bursts failed, each reason once.
    """

    document: dict[str, Any]
    reasons: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0: recorded; 1: no burst gave a valid measurement; 130: interrupted."""
        if self.document["interrupted"]:
            return 130
        return 0 if self.document["ok"] else 1


_COMPARED = ("cap", "data", "workload_sha256")
"""Facts that a file must agree with to be gone on with."""


class Recording:
    """Measures every setting of a device into a profile, `repeats` times. Goes on with a file that is there.

    Passes over the grid follow each other, so that the bursts at one setting are far apart in time, each in an order of
    its own drawn from the seed: the drift of a machine that warms up must not look like the effect of a knob.

    A batch size that ran out of memory bounds the batch size everywhere. A burst that says little of its setting
    (throttled, crashed, ...) is repeated once, at the end of its pass. The file is written after every burst.

    Args:
        device: An open device; the caller closes it.
        workload: What is trained.
        path: The profile.
        repeats: Bursts at each setting.
        seed: Of the order.
        cap_w: Watts above which the guard ends a burst, or None.
        fresh: Start anew; a file that is there is kept under a name with a number.
        plan: The burst protocol; its cap is set from `cap_w`. None: lengths for a device with, or without, a meter.

    Raises:
        InputError: a wrong number, a cap without a meter, a replay, a file that cannot be written or records
            something else.
    """

    def __init__(
        self,
        device: Device,
        workload: WorkloadSpec | str,
        path: Path,
        *,
        repeats: int = 1,
        seed: int = 0,
        cap_w: float | None = None,
        fresh: bool = False,
        plan: BurstPlan | None = None,
    ) -> None:
        check_numbers(1, seed, cap_w, None)
        if not isinstance(repeats, int) or repeats < 1:
            raise InputError(f"each setting is measured once or more, not {repeats} times", hint="--repeats 1")
        require_writable(path, "-o")
        self._device = device
        self.workload = WorkloadSpec(workload) if isinstance(workload, str) else workload
        self.info: DeviceInfo = device.describe()
        if self.info.source == "replayed":
            raise UnsupportedError(f"{self.info.name} is a recorded profile already", hint="name a device to measure")
        self.cap = check_cap(self.info, find_goal("throughput"), cap_w, None)
        self.plan = plan or BurstPlan.for_device(self.info)
        if self.cap is not None:
            self.plan = replace(self.plan, cap_w=self.cap.watts, statistic=self.cap.statistic)
        self.path, self.repeats = path, repeats
        self.space = Space.of(self.info)
        facts = {"cap": f"{self.cap.watts:g} W ({self.cap.statistic})"} if self.cap else {}
        facts |= {"data": self.workload.data} if self.workload.data else {}
        digests = file_digests(self.workload.spec)
        facts |= {"workload_sha256": ", ".join(digests.values())} if digests else {}
        verb = "emulated" if self.info.source == "emulated" else "measured"
        metadata = metadata_of(self.info, self.workload, f"{verb} by tune record on {now()[:10]}")
        metadata = replace(metadata, extra={**metadata.extra, **facts})
        self._record = RecordFile(path, metadata, self.space.names, compared=_COMPARED, fresh=fresh)
        self.kept_as = self._record.kept_as
        self.sweep = Sweep(self.space, self._record, repeats, seed)
        self.resumed = self.sweep.done
        self._stop = threading.Event()
        self._cost_s = 0.0

    @property
    def estimate_s(self) -> tuple[float, float]:
        """Seconds that the bursts to be made take at least and at most by their plan, without loading and starts."""
        low_s, high_s = self.plan.span_s(bool(self.info.statistics))
        return self.sweep.left * low_s, self.sweep.left * high_s

    # ---- the loop

    def run(self, on_progress: RecordingSink | None = None) -> Recorded:
        """Measure what is not in the file yet, until all is or a stop is requested.

        Raises:
            DeviceError: the device was lost, or failed burst after burst. The same recording goes on from its file.
            StoreError: the file could not be written.
        """
        self._record.set_aside()
        failures = 0
        while (burst := self.sweep.next()) is not None and not self._stop.is_set():
            setting, again = burst
            measurement = self._measure(setting)
            self._cost_s += measurement.cost_s
            if measurement.status is Status.ABORTED and self._stop.is_set():
                break  # the user's own abort says nothing about the setting
            self._record.add(setting, measurement, again=again)
            self._record.save()
            if on_progress is not None:
                done = self.sweep.done
                on_progress(RecordingProgress(setting, measurement, done, done + self.sweep.left, self.best))
            if measurement.status not in REPEATED:
                failures = 0
            elif not again:  # what failed before and fails again says nothing of the device
                failures += 1
            if failures == MAX_FAILURES_IN_A_ROW:
                raise DeviceError(
                    f"the last {failures} bursts failed: {measurement.status.value}"
                    f"{': ' + measurement.reason if measurement.reason else ''}",
                    hint="mend the cause, then repeat the command: it goes on from the file",
                )
        interrupted = self._stop.is_set() and self.sweep.next() is not None
        self._stop.clear()
        return self.result(interrupted=interrupted)

    def _measure(self, setting: Setting) -> Measurement:
        earlier = sum(burst.attempts for burst in self._record.bursts(setting))
        measurement = self._device.measure(setting, self.workload, replace(self.plan, replicate=earlier))
        if measurement.source != self.info.source:
            raise InputError(f"the device's measurements are {self.info.source}, this one is {measurement.source}")
        reason = fault(measurement)
        return measurement if reason is None else as_failed(measurement, reason)

    def request_stop(self) -> None:
        """Finish the burst that runs, then end. May be called from a signal handler."""
        self._stop.set()

    def abort(self) -> None:
        """End the burst that runs and the recording; the burst is made again when the recording goes on."""
        self._stop.set()
        self._device.abort()

    # ---- the end

    @property
    def best(self) -> Cell | None:
        """The fastest setting, within the cap; None where nothing valid was measured."""
        profile = self._record.profile
        if profile is None:
            return None
        return profile.best_feasible(*((self.cap.watts, self.cap.statistic) if self.cap else (None,)))

    def result(self, *, interrupted: bool = False) -> Recorded:
        """Where the recording stands."""
        rows, best = self._record.rows, self.best
        ok = sum(row.ok for row in rows)
        document = {
            "profile": str(self.path) if ok else None,
            "device": self.info.name,
            "source": self.info.source,
            "workload": self._record.metadata.workload,
            "throughput_unit": self.info.throughput_unit,
            "settings": len(self.space),
            "rows": len(rows),
            "ok": ok,
            "failed": len(rows) - ok,
            "skipped": self.sweep.skipped,
            "best": {"setting": dict(best.setting), "throughput": best.throughput} if best else None,
            "duration_s": self._cost_s,
            "interrupted": interrupted,
        }
        return Recorded(document, self._record.reasons)
