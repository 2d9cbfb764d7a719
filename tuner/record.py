"""A study's bursts as a recorded profile, for replay."""

from __future__ import annotations

from devices.device import DeviceInfo, WorkloadSpec
from devices.profile import Profile, ProfileMetadata, ProfileRow
from tuner.outcome import Outcome
from tuner.store import now


def profile_of(outcome: Outcome, workload: WorkloadSpec) -> Profile:
    """Every burst of a study as a row, in the order made.

    A record of an emulation says so. One of a replay passes on the origin and licence of what it replayed, and where
    noise was added, says that and counts as emulated: nobody measured those figures.

    Raises:
        ProfileError: no burst was made.
    """
    return Profile(
        metadata=metadata_of(outcome.info, workload, f"study {outcome.study}"),
        knob_names=outcome.problem.space.names,
        rows=tuple(
            ProfileRow.from_measurement(trial.setting, trial.measurement)
            for trial in outcome.trials
            if trial.measurement is not None
        ),
    )


def metadata_of(info: DeviceInfo, workload: WorkloadSpec, made_by: str) -> ProfileMetadata:
    """What a profile of bursts on a device says of itself: `made_by`, the device's own origin, what was held fixed."""
    origin = dict(info.origin)
    source = origin.pop("origin", None)
    default = info.default_setting
    arguments = "".join(f" {name}={value}" for name, value in workload.args.items())
    return ProfileMetadata(
        device=info.model or info.name,
        workload=workload.spec + arguments,
        origin=made_by + (f", replayed from: {source}" if source else ""),
        licence=origin.pop("licence", None),
        throughput_unit=info.throughput_unit,
        recorded_at=now(),
        provenance="emulated" if info.source == "emulated" or "noise" in origin else "measured",
        default_setting=default if default and set(default) == {knob.name for knob in info.knobs} else None,
        extra={**origin, **{name: str(value) for name, value in info.held_fixed.items()}},
    )
