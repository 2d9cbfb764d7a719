"""A study's bursts as a recorded profile, for replay."""

from __future__ import annotations

from devices.device import WorkloadSpec
from devices.profile import Profile, ProfileMetadata, ProfileRow
from tuner.outcome import Outcome
from tuner.store import now


def profile_of(outcome: Outcome, workload: WorkloadSpec) -> Profile:
    """Every burst of a study as a row, in the order made.

    A record of an emulation says so, and one of a replay passes on that its figures were recorded elsewhere.

    Raises:
        ProfileError: no burst was made.
    """
    info = outcome.info
    origin = f"study {outcome.study}" + (", replayed from a recorded profile" if info.source == "replayed" else "")
    default = info.default_setting
    return Profile(
        metadata=ProfileMetadata(
            device=info.model or info.name,
            workload=workload.spec,
            origin=origin,
            throughput_unit=info.throughput_unit,
            recorded_at=now(),
            provenance="emulated" if info.source == "emulated" else "measured",
            default_setting=default if default and set(default) == set(outcome.problem.space.names) else None,
            extra={name: str(value) for name, value in info.held_fixed.items()},
        ),
        knob_names=outcome.problem.space.names,
        rows=tuple(
            ProfileRow.from_measurement(trial.setting, trial.measurement)
            for trial in outcome.trials
            if trial.measurement is not None
        ),
    )
