"""One `tune run` from request to result: opens what was asked for, runs the study, writes what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from devices.device import LOCAL_DEVICES, Access, Device, EventSink, WorkloadSpec
from devices.errors import InputError
from devices.measurement import Statistic
from devices.profile import read_profile, write_profile
from devices.replay import ReplayDevice
from tuner.files import check_files, write_json
from tuner.frozen import freeze
from tuner.goal import Cap, find_goal
from tuner.interrupt import Interrupts
from tuner.outcome import Outcome, Stopped
from tuner.prior import earlier_study_note, prior_records, told_answers
from tuner.record import profile_of
from tuner.specification import study_name
from tuner.store_sql import default_location
from tuner.strategies import DEFAULT_STRATEGY
from tuner.study import DEFAULT_BURSTS, ProgressSink, Study
from tuner.target import AUTO_PRESET, open_target

DEFAULT_WORKLOAD = "resnet18"


@dataclass(frozen=True)
class Request:
    """What the user asked for; the fields are the options of `tune run`."""

    device: str | None = None
    replay: Path | None = None
    cap_w: float | None = None
    cap_on: Statistic | None = None
    goal: str = "throughput"
    workload: str | None = None
    workload_args: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = None
    python: str | None = None
    preset: str | None = None
    sysfs_root: str = "/"
    meter: str | None = None
    emulate: bool = False
    search: tuple[str, ...] = ()
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    prior: tuple[str, ...] = ()
    bursts: int = DEFAULT_BURSTS
    strategy: str = DEFAULT_STRATEGY
    seed: int = 0
    noise_throughput: float = 0.0
    noise_power: float = 0.0
    name: str | None = None
    fresh: bool = False
    store: str | None = None
    record: Path | None = None
    out: Path = Path("frozen.json")
    dry_run: bool = False


@dataclass(frozen=True)
class Finished:
    """The result of a request: the document of `--json`, and whether the answer is yes."""

    document: dict[str, Any]
    exit_status: int


@dataclass(frozen=True)
class Target:
    """What is to be tuned: the device, the workload it trains, and sentences for the user."""

    device: Device
    workload: WorkloadSpec
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Watchers:
    """Who is told after every burst, and while one runs (see `Study.run`)."""

    burst: ProgressSink | None = None
    event: EventSink | None = None


class Audience(Protocol):
    """Who is told of a study while it runs: a screen, a web page, nobody."""

    def begin(self, study: Study, notes: Sequence[str]) -> None:
        """The study is open; nothing was measured in this run yet."""

    def plan(self, study: Study) -> dict[str, Any]:
        """What would be done, told and returned as a document."""

    def progress(self, study: Study) -> AbstractContextManager[Watchers]:
        """Entered while bursts are made; what it gives is told of them."""

    def end(self, document: Mapping[str, Any], record: Path | None) -> None:
        """The result, as the document of `--json`, and where the bursts were recorded."""


def open_request(request: Request) -> Target:
    """The device and workload of a request.

    Raises:
        InputError: anything to be retyped: device, profile, workload, knob, value.
        ProfileError: a profile that cannot be used.
    """
    if request.replay is not None:
        profile = read_profile(request.replay)
        replay = ReplayDevice(
            profile,
            seed=request.seed,
            noise_throughput=request.noise_throughput,
            noise_power=request.noise_power,
            values=request.values,
        )
        recorded = profile.metadata.workload
        if request.workload and recorded and request.workload != recorded:
            raise InputError(
                f"{request.replay} records the workload {recorded}, not {request.workload}", hint="leave --workload out"
            )
        workload = WorkloadSpec(recorded or request.workload or request.replay.stem)
        return Target(replay, workload, replay.describe().notes)
    workload = WorkloadSpec(request.workload or DEFAULT_WORKLOAD, dict(request.workload_args), _absolute(request.data))
    device, notes = open_target(
        request.device or "",
        workload,
        find_goal(request.goal),
        Cap(request.cap_w, request.cap_on or "p95") if request.cap_w is not None else None,
        preset=request.preset or AUTO_PRESET,
        search=request.search,
        values=request.values,
        seed=request.seed,
        access=Access(request.python, request.sysfs_root, request.meter, request.emulate),
    )
    return Target(device, workload, (*device.describe().notes, *notes))


def tune(request: Request, audience: Audience, interrupts: Interrupts) -> Finished:
    """Run the study of a request, or go on with it, and write the frozen config and the record it asks for.

    Raises:
        InputError: anything to be retyped; nothing was measured.
        DeviceError, StoreError: the study stopped; the same request goes on with it.
    """
    _check(request)
    prior = prior_records(request.prior, _location(request))
    target = open_request(request)
    with target.device as device:
        _check_own_name(request, target)
        study = Study(
            device,
            target.workload,
            goal=request.goal,
            cap_w=request.cap_w,
            cap_on=request.cap_on,
            strategy=request.strategy,
            bursts=request.bursts,
            seed=request.seed,
            name=request.name,
            store="sqlite://" if request.dry_run else _location(request),
            fresh=request.fresh,
            prior=prior,
        )
        with study:
            notes = told_answers(request.prior, prior, request.replay)
            if not (prior or study.resumed or request.dry_run):
                notes += earlier_study_note(study, _location(request))
            audience.begin(study, (*notes, *target.notes))
            if request.dry_run:
                return Finished(audience.plan(study), 0)
            interrupts.watch(study)
            with audience.progress(study) as watchers:
                outcome = study.run(watchers.burst, watchers.event)
            return _conclude(request, target, study, outcome, audience)


def _absolute(path: str | None) -> str | None:
    """A path that means the same in every folder."""
    return None if path is None else str(Path(path).expanduser().absolute())


def _location(request: Request) -> str:
    return request.store or default_location()


def _check(request: Request) -> None:
    """What can be wrong before anything is opened.

    Raises:
        InputError: options that do not go together, or files that cannot be written or would be lost.
    """
    if (request.device is None) == (request.replay is None):
        raise InputError("name one of --device and --replay", hint="tune run --device jetson-orin --cap 7W")
    if request.replay is None and (request.noise_throughput or request.noise_power):
        raise InputError("noise is added to a replayed profile only", hint="leave --noise-throughput/--noise-power out")
    if request.replay is not None:
        given = {
            "--preset": request.preset,
            "--search": request.search,
            "--workload-arg": request.workload_args,
            "--data": request.data,
            "--python": request.python,
            "--meter": request.meter,
            "--sysfs-root": request.sysfs_root != "/",
        }
        for option, value in given.items():
            if value:
                raise InputError(f"{option} is for a device; a profile holds what it holds", hint=f"leave {option} out")
    if request.emulate and request.device in LOCAL_DEVICES:
        raise InputError(f"{request.device} is this machine and cannot be emulated", hint="leave --emulate out")
    if request.dry_run:
        return
    priors = [Path(what) for what in request.prior if Path(what).is_file()]  # else the name of a study
    check_files(
        [("--out", request.out), ("--record", request.record)],
        read=[("--replay", request.replay), *(("--prior", path) for path in priors)],
        kept=[("--store", Path(location) if "://" not in (location := _location(request)) else None)],
    )


def _check_own_name(request: Request, target: Target) -> None:
    """Raise InputError where a study would learn from itself: --fresh sets it aside under another name."""
    name = request.name or study_name(target.device.describe(), target.workload, request.goal, request.cap_w)
    if name in request.prior and not Path(name).is_file():
        raise InputError(
            f"the study '{name}' cannot learn from itself", hint=f"another name for the new one: --study '{name}-2'"
        )


def _conclude(request: Request, target: Target, study: Study, outcome: Outcome, audience: Audience) -> Finished:
    frozen = None
    if outcome.verdict.recommended is not None and outcome.stopped is not Stopped.INTERRUPTED:
        found = target.device.inspect(target.workload)
        reference, samples = (found.to_reference(), found.train_samples) if found else (None, None)
        write_json(freeze(outcome, target.workload, reference, samples), request.out)
        frozen = str(request.out)
    if request.record is not None and any(trial.measurement for trial in outcome.trials):
        write_profile(profile_of(outcome, target.workload), request.record)
    document = outcome.to_json(frozen)
    study.keep(document)
    audience.end(document, request.record)
    if outcome.stopped is Stopped.INTERRUPTED:
        return Finished(document, 130)
    return Finished(document, 0 if frozen else 1)
