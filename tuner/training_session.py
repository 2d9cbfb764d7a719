"""One `tune train` from request to result: opens the device, trains, writes what came out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from devices.catalog import find_board
from devices.device import HERE, LOCAL_DEVICES, Access, Device, DeviceInfo, EventSink, board_here
from devices.errors import DeviceError, DeviceLostError, StoreError, UnsupportedError
from devices.training import TrainingResult, WorkloadInfo
from tuner.frozen import read_frozen
from tuner.frozen_check import FrozenTraining, frozen_training
from tuner.goal import find_goal
from tuner.interrupt import Interrupts
from tuner.session import Finished
from tuner.target import open_target
from tuner.training import (
    Training,
    cannot_train,
    decide,
    provenance,
    refuse_source,
    training_workload,
)
from tuner.training_request import RESULT_FILE, TrainRequest, check_request
from tuner.training_result import make_folder, training_document, write_result
from tuner.workload_files import changed_files


class TrainAudience(Protocol):
    """Who is told of a training while it runs: a screen, nobody."""

    def begin(self, info: DeviceInfo, training: Training) -> None:
        """Everything is decided; nothing was trained in this run yet."""

    def progress(self, training: Training) -> AbstractContextManager[EventSink]:
        """Entered while the device trains; what it gives is told the device's events."""

    def end(self, document: Mapping[str, Any]) -> None:
        """The result, as the document of `--json`."""


class RunningTraining:
    """What Ctrl-C reaches: once, the training ends after its optimizer step with a checkpoint; twice, at once.

    Attributes:
        stopping: Whether it was asked to end.
        at_once: Whether that must not wait for the optimizer step.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.stopping = False
        self.at_once = False

    def request_stop(self) -> None:
        """End after the optimizer step that runs, with a checkpoint. May be called from a signal handler."""
        self.stopping = True
        self._device.abort()

    def abort(self) -> None:
        """End at once where it was asked to end before; SIGTERM alone leaves time for the step and a checkpoint. May be
        called from a signal handler."""
        if not self.stopping:
            self.request_stop()
            return
        self.at_once = True
        self._device.abort()


class _Watcher:
    """Passes events on, and remembers where the training stands and what it said."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self.steps = 0
        self.checkpoint: str | None = None
        self.notes: list[str] = []

    def __call__(self, event: Mapping[str, Any]) -> None:
        phase = event.get("phase")
        if phase == "train":
            self.steps = event["step"]
        elif phase == "checkpoint":
            self.checkpoint = event["path"]
        elif phase == "note":
            self.notes.append(event["text"])
        self._sink(event)


def train(request: TrainRequest, audience: TrainAudience, interrupts: Interrupts) -> Finished:
    """Train with a frozen config, or go on with that, and write what is asked for.

    Raises:
        InputError: anything to be retyped; nothing was trained.
        DeviceError: the training failed; checkpoints written before are whole.
        StoreError: the training is finished, but its result could not be written.
    """
    check_request(request)
    config = frozen_training(read_frozen(request.frozen), request.frozen)
    device, notes = open_training_device(request, config)
    with device:
        info, found = _inspect(request, config, device)
        changed = [f"{path} has changed since the study" for path in changed_files(config.files_sha256)]
        notes = (*info.notes, *notes, *provenance(config, info), *changed)
        training = decide(request, config, info, found, notes)
        make_folder(request.checkpoint_dir, "--checkpoint-dir")
        if request.out is not None:
            make_folder(request.out, "--out")
        audience.begin(info, training)
        return _run(request, config, device, info, training, audience, interrupts)


def open_training_device(request: TrainRequest, config: FrozenTraining) -> tuple[Device, tuple[str, ...]]:
    """The device that is to train, and what the user should be told of the choice.

    Raises:
        InputError: a device nobody knows, or a workload that cannot be loaded.
        DeviceError: the device cannot be used.
    """
    name = request.device or config.device
    board = find_board(name)
    if board is not None and board_here(board.name, HERE) is None:
        raise cannot_train(request, config, board.name, "emulated")
    if name in LOCAL_DEVICES:
        refuse_source(request, config, "measured")  # before the seconds its trainer takes
    elif request.device is None:  # the free text of a recorded profile
        raise cannot_train(request, config, name, config.source)
    threads = [knob for knob in ("cpu_threads",) if knob in config.setting]  # a knob of `cpu` where it is searched
    workload, goal = training_workload(request, config), find_goal("throughput")
    return open_target(name, workload, goal, None, search=threads, access=Access(request.python))


def _inspect(request: TrainRequest, config: FrozenTraining, device: Device) -> tuple[DeviceInfo, WorkloadInfo]:
    """The device and the workload it found.

    Raises:
        InputError: it trains nothing, the figures are refused, or a workload that cannot be loaded.
    """
    info = device.describe()
    if type(device).train is not Device.train:
        refuse_source(request, config, info.source)
        try:
            found = device.inspect(training_workload(request, config))
        except UnsupportedError:
            found = None
        if found is not None:
            return info, found
    raise cannot_train(request, config, info.name, info.source)


def _run(
    request: TrainRequest,
    config: FrozenTraining,
    device: Device,
    info: DeviceInfo,
    training: Training,
    audience: TrainAudience,
    interrupts: Interrupts,
) -> Finished:
    running = RunningTraining(device)
    began = False
    with audience.progress(training) as sink:
        watcher = _Watcher(sink)
        interrupts.watch(running)
        if running.stopping:  # pressed while the workload was loaded
            result = TrainingResult(steps=0, finished=False, resumed=False)
        else:
            began = True
            result = _train(request, device, training, running, watcher)
    document = training_document(request, config, info, training, result)
    document["notes"] += watcher.notes
    if not result.finished:
        document["go_on"] = request.command(resume=request.resume or began)
    if request.out is not None and result.finished:  # never beside a model.pt of another training
        write_result(request, document, request.out / RESULT_FILE)
    audience.end(document)
    return Finished(document, 0 if result.finished else 130)


def _train(
    request: TrainRequest, device: Device, training: Training, running: RunningTraining, watcher: _Watcher
) -> TrainingResult:
    try:
        return device.train(training.workload, training.plan, watcher)
    except (DeviceError, StoreError) as error:
        if running.at_once:  # the trainer was ended in the middle of a step, as asked
            return TrainingResult(
                steps=watcher.steps, finished=False, resumed=request.resume, checkpoint=watcher.checkpoint
            )
        if error.hint is None or isinstance(error, DeviceLostError):
            written = watcher.checkpoint is not None
            again = request.command(resume=request.resume or written)
            error.hint = f"it goes on from its last checkpoint with: {again}" if written else again
        raise
