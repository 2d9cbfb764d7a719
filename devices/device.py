"""The Device seam: what every device, real, replayed or emulated, promises."""

from __future__ import annotations

import difflib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Self

from devices.errors import InputError, UnsupportedError
from devices.measurement import STATISTICS, Measurement, Source, Statistic
from devices.training import TrainingPlan, TrainingResult, WorkloadInfo

Setting = Mapping[str, float]
"""One value for each knob, by the knob's name. Whole numbers are `int`."""

EventSink = Callable[[Mapping[str, Any]], None]
"""Receives progress of a burst, at most twice a second: `{"phase": ..., "power_w": ..., "elapsed_s": ...}`."""

BATCH_KNOB = "batch_size"
KNOB_UNITS: Mapping[str, str] = {
    "gpu_freq_mhz": "MHz",
    "batch_size": "samples",
    "cpu_freq_mhz": "MHz",
    "cpu_cores": "cores",
    "cpu_threads": "threads",
    "emc_freq_mhz": "MHz",
    "power_limit_w": "W",
}


def knob_value(value: float) -> float:
    """`value` as the house writes knob values: an int where it is whole (128, not 128.0), else a float."""
    number = float(value)
    return int(number) if number.is_integer() else number


@dataclass(frozen=True)
class Knob:
    """Something to set.

    Attributes:
        name: One of `KNOB_UNITS`, or any name a profile gives.
        values: The steps open now, ascending, in the unit of the name.
        default: The step the device runs at when nobody tunes it (inside `values` or not), or None.
    """

    name: str
    values: tuple[float, ...]
    default: float | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError(f"knob '{self.name}' has no value", hint=f"--values {self.name}=V,V,...")
        if list(self.values) != sorted(set(self.values)):
            raise InputError(f"the values of knob '{self.name}' must ascend without repetition: {self.values}")

    @property
    def unit(self) -> str:
        """The unit of the values, empty for a knob the house does not know."""
        return KNOB_UNITS.get(self.name, "")


@dataclass(frozen=True)
class Access:
    """How a device is reached, and by what it is measured and trained.

    Attributes:
        python: Path of the Python that trains, where something is trained; None: this one.
        root: Of the board's files (`--sysfs-root`); under another than `/` it is the board that these files are of.
        meter: A command line or an HTTP address that gives watts, for a machine without a meter of its own.
        emulate: Emulate the board even where it is here.
    """

    python: str | None = None
    root: str = "/"
    meter: str | None = None
    emulate: bool = False


HERE = Access()
"""This machine as it is."""


@dataclass(frozen=True)
class Pins:
    """What a power mode holds while the rest is searched.

    Attributes:
        values: The value of each knob that is not searched, by its name.
        most: The highest value of each knob that it limits.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkloadSpec:
    """What is trained, as the user named it; resolved on the board, never on the host.

    Attributes:
        spec: A named workload (`resnet18`), `FILE.py:FACTORY` or `MODULE:FACTORY`.
        args: Keyword arguments of the factory (`image_size=32`).
        data: A path on the board, or None for synthetic inputs.
    """

    spec: str
    args: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values."""
        return {"spec": self.spec, "args": dict(self.args), "data": self.data}


@dataclass(frozen=True)
class BurstPlan:
    """How a burst is to be made.

    Attributes:
        cap_w: The cap in watts that the guard watches, or None.
        statistic: The statistic of power the cap holds on.
        min_s: Shortest measured window, seconds.
        max_s: Longest measured window, seconds.
        tolerance: Relative half-width of the 95 % interval of throughput and power at which the window may end.
        accumulation: Micro-batches per optimizer step.
        replicate: How many bursts at this setting came before (0 for the first): emulated and replayed
            noise is a function of (seed, setting, replicate).
    """

    cap_w: float | None = None
    statistic: Statistic = "p95"
    min_s: float = 10.0
    max_s: float = 20.0
    tolerance: float = 0.02
    accumulation: int = 1
    replicate: int = 0

    @classmethod
    def for_device(cls, info: DeviceInfo) -> BurstPlan:
        """The usual lengths: without a meter, whose lag they are for, a few seconds are enough; and on a machine that
        does other things too, bursts differ by more than a longer window could tell."""
        return cls() if info.statistics else cls(min_s=1.0, max_s=5.0, tolerance=0.05)

    def span_s(self, metered: bool) -> tuple[float, float]:
        """Seconds that a burst takes at least and at most, without loading and starts."""
        warm_up_s = 3.0 if metered else self.min_s / 2  # as `devices.agent.burst.Lengths`
        return warm_up_s + self.min_s, warm_up_s + self.max_s

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class DeviceInfo:
    """What a device says of itself.

    Attributes:
        name: The board's own name, whichever alias was typed; replay: the profile's device.
        model: The board it is or stands for, in words, or None.
        source: Where its measurements come from.
        knobs: The knobs that can be searched, in order.
        statistics: The statistics of power its meter gives; empty without a meter.
        meter: What the watts are of ("VDD_IN, module input"), or None without a meter.
        no_meter: Why a meter that is there, or that the user named, is not used, and what mends it; else None.
        throughput_unit: `samples/s`, or what a profile says.
        held_fixed: What is pinned during the study (CPU set, EMC, power mode, versions).
        settings: The settings that can be measured where they are not the full product of the knobs' values
            (a profile with missing cells), else None.
        default_setting: What the device runs at when nobody tunes it, or None where that is not known.
        notes: Sentences the user should read before the first burst.
        writes: Files of the board that are written to hold a setting, by the knob, searched or pinned.
        origin: What a record of these measurements must pass on: where the data come from, their licence, noise that
            was put on them.
        fingerprint: A digest of what decides the answers and may change under the same name (the content of a profile,
            the noise put on it), or None. A study is resumed only on the same one.
    """

    name: str
    source: Source
    knobs: tuple[Knob, ...]
    model: str | None = None
    statistics: tuple[Statistic, ...] = ()
    meter: str | None = None
    no_meter: tuple[str, str] | None = None
    throughput_unit: str = "samples/s"
    held_fixed: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[Setting, ...] | None = None
    default_setting: Setting | None = None
    notes: tuple[str, ...] = ()
    writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str | None = None

    @property
    def default_statistic(self) -> Statistic | None:
        """The statistic a cap holds on when the user names none: p95, else peak, else mean; None without a meter."""
        return next((s for s in STATISTICS if s in self.statistics), None)

    def without_meter(self, what: str, hint: str) -> UnsupportedError:
        """The error where something needs the meter that this device does not have.

        Args:
            what: What cannot be done: `no cap can be held`.
            hint: What to do where no meter is there that could be mended.
        """
        why = ""
        if self.no_meter is not None:
            why, hint = f" that can be used ({self.no_meter[0]})", self.no_meter[1]
        return UnsupportedError(f"{self.name} has no power meter{why}, so {what}", hint=hint)

    def enumerate_settings(self) -> Iterator[Setting]:
        """Every setting that can be measured, the last knob varying fastest."""
        if self.settings is not None:
            yield from self.settings
            return
        names = [knob.name for knob in self.knobs]
        for values in itertools.product(*(knob.values for knob in self.knobs)):
            yield dict(zip(names, values, strict=True))


class Device(ABC):
    """A machine to be tuned: it has knobs, perhaps a meter, and runs bursts.

    Two methods must be written; the others do nothing by default, which is right for a device without state.

    One caller at a time; not thread-safe, except `abort`, which may be called from a signal handler or another
    thread. Use as a context manager: leaving it restores and closes. Everything returned belongs to the caller.
    """

    @abstractmethod
    def describe(self) -> DeviceInfo:
        """What the device is. Cheap, writes nothing, may be called again; the answer stays the same until `close`.

        Raises:
            DeviceError: the device cannot be read.
        """

    @abstractmethod
    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        """Run one burst and say what was found. Blocks for the burst, bounded by the plan and the start-up time-out.

        A failed burst is a status with a reason, never an exception; so is an abort (`aborted`). May be called
        again with the same arguments; replicates are independent draws.

        Raises:
            InputError: a setting this device does not have (unknown knob, value that is no step, cell not recorded),
                or a cap without a meter. Nothing was written.
            DeviceLostError: the device stopped answering.
        """

    def inspect(self, workload: WorkloadSpec) -> WorkloadInfo | None:
        """Load a workload where it would train, and say what was found; None on a device that trains nothing.

        Raises:
            InputError: a workload that cannot be loaded, or whose first training step fails.
            DeviceError: the device cannot train at all (no torch, a trainer that does not start).
        """
        return None

    def train(self, workload: WorkloadSpec, plan: TrainingPlan, on_event: EventSink | None = None) -> TrainingResult:
        """Train to the end of the plan, or until `abort`. Blocks. Every complete checkpoint can be resumed from.

        Events: `{"phase": "train", "step", "steps", "epoch", "loss", "learning_rate", "throughput", "elapsed_s"}`, at
        most twice a second; `{"phase": "checkpoint", "path"}`; `{"phase": "test"}`; `{"phase": "note", "text"}`, a
        sentence for the user.

        Raises:
            UnsupportedError: this device trains nothing.
            InputError: a workload that cannot be loaded, a plan that does not fit its data, a checkpoint of another
                training, a folder that another training holds.
            DeviceError: the training failed (out of memory, a loss that is no number, an error of the workload).
                Checkpoints written before are whole.
            StoreError: a checkpoint or the model could not be written. Checkpoints written before are whole.
            DeviceLostError: the device stopped answering.
        """
        raise UnsupportedError(f"{self.describe().name} cannot train: its figures are {self.describe().source}")

    def abort(self) -> None:  # noqa: B027
        """End a running burst soon, or a training after its optimizer step, with a checkpoint; called again, at once.

        Without either, do nothing. May be called from any thread or a signal handler, any number of times.
        """

    def restore(self) -> None:  # noqa: B027
        """Put back every knob to the value found before the first write. May be called again; a device without state
        to restore does nothing.

        Raises:
            DeviceError: a value could not be put back; the message names it.
        """

    def close(self) -> None:  # noqa: B027
        """Restore, then release everything. May be called again; no other method may be called afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


LOCAL_DEVICES = ("cpu", "nvidia")
"""Devices that every machine is, by the names its agent knows."""


def unknown_device(name: str) -> InputError:
    """The error for a device nobody knows, with the nearest names."""
    from devices.catalog import load_catalog

    names = [*LOCAL_DEVICES, *(known for board in load_catalog() for known in (board.name, *board.aliases))]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    nearest = f"; the nearest names are {', '.join(close)}" if close else ""
    return InputError(f"unknown device '{name}'{nearest}", hint="tune devices lists all")


def open_device(
    name: str,
    workload: WorkloadSpec,
    *,
    preset: str | None = None,
    search: Sequence[str] = (),
    values: Mapping[str, Sequence[float]] | None = None,
    seed: int = 0,
    access: Access = HERE,
) -> Device:
    """The device of that name, with the default batch size of a workload: this machine, where it is a board of that
    family, else the emulation of the board.

    Args:
        name: `cpu`, or a board's name or alias.
        workload: What it will train.
        preset: What a power mode of the board pins; one of the board's presets.
        search: Knobs to search besides those the device always searches.
        values: Lists of values that replace a knob's own.
        seed: Seed of the emulated noise.
        access: How it is reached.

    Raises:
        InputError: unknown device (the nearest names are given), preset, knob or value; a workload that cannot be
            loaded.
        DeviceError: this machine cannot train.
    """
    if name in LOCAL_DEVICES:
        from devices.remote import AgentDevice

        if preset is not None:
            raise InputError(f"{name} has no preset '{preset}'", hint="leave --preset out")
        return AgentDevice(name, workload=workload, search=search, values=values, access=access)
    from devices.catalog import find_board
    from devices.cost import workload_info
    from devices.emulated import EmulatedDevice

    board = find_board(name)
    here = board_here(board.name if board is not None else name, access)
    if here is not None:
        from devices.remote import AgentDevice

        board = find_board(here)
        return AgentDevice(
            here,
            workload=workload,
            search=search,
            values=values,
            access=access,
            pins=board.pins(preset) if board is not None and preset is not None else None,
        )
    if board is None:
        raise unknown_device(name)
    refuse_meter(board.name, access)
    batch = workload_info(workload).batch
    return EmulatedDevice(
        board, preset=preset or board.presets[0].name, search=search, values=values, seed=seed, reference_batch=batch
    )


def refuse_meter(name: str, access: Access) -> None:
    """Refuse a meter beside an emulated board of that name.

    Raises:
        InputError: one was named.
    """
    if access.meter is not None:
        raise InputError(
            f"{name} is emulated, so the meter '{access.meter}' would measure another machine",
            hint="leave --meter out, or run on the board itself",
        )


def board_here(name: str, access: Access) -> str | None:
    """The module that is here, if it is of the same family as the board of that name; under another root than `/`
    whatever board its files are of. None where the emulation answers.

    Raises:
        InputError: a root whose files name no board.
    """
    from devices.agent.identity import identify
    from devices.agent.sysfs import SysFs

    if access.emulate:
        return None
    root, sysfs = access.root, SysFs(access.root)
    identity = identify(sysfs)
    if not sysfs.real:
        if identity.family is None:
            raise InputError(
                f"the files under {root} name no board that is known", hint=f"tune doctor --sysfs-root {root}"
            )
        return identity.module or name
    return identity.module if identity.family is not None and name.startswith(identity.family) else None
