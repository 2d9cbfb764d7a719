"""AgentDevice: a device behind an agent, driven through a pipe. Here a child of this process on the same machine."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from devices.agent import PROTOCOL
from devices.agent.channel import Message
from devices.client import AgentClient
from devices.device import (
    BATCH_KNOB,
    HERE,
    Access,
    BurstPlan,
    Device,
    DeviceInfo,
    EventSink,
    Knob,
    Pins,
    Setting,
    WorkloadSpec,
    knob_value,
)
from devices.errors import DeviceError, InputError, UnsupportedError
from devices.knobs import DEFAULT_BATCHES, check_batches, check_setting, check_steps
from devices.link import Link, LocalLink
from devices.measurement import Measurement
from devices.training import TrainingPlan, TrainingResult, WorkloadInfo


class AgentDevice(Device):
    """The device of that name on this machine.

    Args:
        name: As the agent knows it: `cpu`.
        workload: Loaded now, so that what is wrong with it is said before a study begins; its reference batch is the
            default batch size, and its data bound the batch size.
        search: Knobs of the device to search besides the batch size; the others are held at their defaults.
        values: Lists of values that replace a knob's own.
        access: The trainer's Python, the root of the board's files, another meter.
        start_up_s: Longest time for the trainer to start and take its first step; None: three minutes.
        link: How the agent is reached; None: it is started as a child of this process.
        pins: What a preset holds while the rest is searched; None: what the board was found at.

    Attributes:
        pid: Process id of the agent.

    Raises:
        InputError: unknown knob or value, or a workload that cannot be loaded.
        DeviceError: no agent, or no trainer, can be started.
    """

    def __init__(
        self,
        name: str,
        *,
        workload: WorkloadSpec,
        search: Sequence[str] = (),
        values: Mapping[str, Sequence[float]] | None = None,
        access: Access = HERE,
        start_up_s: float | None = None,
        pins: Pins | None = None,
        link: Link | None = None,
    ) -> None:
        self._meter = access.meter
        self._name = name
        self._python = _find_python(access.python)
        self._start_up_s = start_up_s
        self._agent = AgentClient(link or LocalLink(root=access.root), name)
        self.pid = self._agent.pid
        try:
            self._workload = workload
            answer = self._ask_hello(workload)
            self._inspected = _workload_info(answer)
            pins = pins or Pins()
            self._info = device_info(answer, self._inspected, search, values or {}, pins)
            self._pinned = {name: self._info.held_fixed[name] for name in pins.values if name in self._info.held_fixed}
        except BaseException:
            self.close()
            raise

    def describe(self) -> DeviceInfo:
        return replace(self._info, default_setting=dict(self._info.default_setting or {}))

    def inspect(self, workload: WorkloadSpec) -> WorkloadInfo | None:
        if workload != self._workload:
            self._inspected = _workload_info(self._ask_hello(workload))
            self._workload = workload
        return self._inspected

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        check_setting(self._info, setting)
        if plan.cap_w is not None and plan.statistic not in self._info.statistics:
            raise self._info.without_meter("no cap can be held", "no cap")
        whole = {**self._pinned, **setting}
        parameters = {"workload": workload.to_json(), "setting": whole, "plan": plan.to_json()}
        return Measurement.from_json(self._agent.ask("burst", on_event, **parameters)["measurement"])

    def train(self, workload: WorkloadSpec, plan: TrainingPlan, on_event: EventSink | None = None) -> TrainingResult:
        if self._info.source != "measured":
            raise UnsupportedError(f"{self._info.name} cannot train: its figures are {self._info.source}")
        for knob in self._info.knobs:
            if knob.name != BATCH_KNOB and plan.setting.get(knob.name, knob.default) != knob.default:
                check_steps(knob.name, [plan.setting[knob.name]], knob.values)
        fault = self._agent.ask("apply", setting={**self._pinned, **plan.setting})["fault"]
        if fault is not None:
            raise DeviceError(fault["reason"], hint="tune doctor tells what is in the way")
        answer = self._agent.ask("train", on_event, workload=workload.to_json(), plan=plan.to_json())
        return TrainingResult(**answer["result"])

    def abort(self) -> None:
        self._agent.abort()

    def restore(self) -> None:
        if not self.closed:
            self._agent.ask("restore")

    def close(self) -> None:
        self._agent.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed, or lost."""
        return self._agent.closed

    def _ask_hello(self, workload: WorkloadSpec) -> Message:
        return self._agent.ask(
            "hello",
            protocol=PROTOCOL,
            device=self._name,
            workload=workload.to_json(),
            python=self._python,
            start_up_s=self._start_up_s,
            meter=self._meter,
        )


def local_info(name: str, access: Access = HERE) -> DeviceInfo:
    """What this machine is as the device of that name before a workload is known: every knob with every value. Takes
    milliseconds; no trainer is started.

    Raises:
        DeviceError: no agent can be started.
    """
    agent = AgentClient(LocalLink(root=access.root), name)
    try:
        answer = agent.ask("hello", protocol=PROTOCOL, device=name, meter=access.meter)
    finally:
        agent.close()
    return device_info(answer, None, [knob["name"] for knob in answer["device"]["knobs"]], {}, Pins())


def _find_python(python: str | None) -> str | None:
    """The path of a Python named by the user.

    Raises:
        InputError: there is none.
    """
    if python is None:
        return None
    found = shutil.which(os.path.expanduser(python))  # noqa: PTH111  (keeps the ./ of a path)
    if found is None:
        raise InputError(f"there is no program '{python}'", hint="--python PATH, of a Python that imports torch")
    return str(Path(found).absolute())  # not resolved: a virtual environment is a link


def _workload_info(answer: Message) -> WorkloadInfo:
    return WorkloadInfo(**answer["workload"])


def device_info(
    answer: Message,
    workload: WorkloadInfo | None,
    search: Sequence[str],
    values: Mapping[str, Sequence[float]],
    pins: Pins,
) -> DeviceInfo:
    """What is to be known of a device, from the agent's words and the user's choices."""
    device = answer["device"]
    offered = {knob["name"]: knob for knob in device["knobs"]}
    for name in search:
        if name != BATCH_KNOB and name not in offered:
            raise InputError(
                f"{device['name']} cannot search '{name}'", hint=f"--search takes: {', '.join(offered) or 'nothing'}"
            )
    always = [name for name in device["always"] if name in offered]
    names = (*always, BATCH_KNOB, *(name for name in offered if name in search and name not in always))
    for name in values:
        if name in offered and name not in names:
            raise InputError(f"{name} is held at {offered[name]['default']}", hint=f"--search {name}")
        if name not in names:
            raise InputError(
                f"{device['name']} has no knob '{name}'", hint=f"knobs: {', '.join((BATCH_KNOB, *offered))}"
            )
    knobs = []
    for name in names:
        if name == BATCH_KNOB:
            knobs.append(_batch_knob(workload, values.get(BATCH_KNOB)))
            continue
        most = pins.most.get(name, math.inf)
        steps = [step for step in offered[name]["values"] if step <= most] or offered[name]["values"][:1]
        chosen = sorted(set(check_steps(name, values.get(name, steps), steps)))
        default = min(_default(offered[name], pins), steps[-1])
        knobs.append(Knob(name, tuple(knob_value(v) for v in chosen), knob_value(default)))
    held = {name: _default(knob, pins) for name, knob in offered.items() if name not in names}
    unheld = _unheld(offered, held, names, pins)
    return DeviceInfo(
        name=device["name"],
        model=device["model"],
        source=device["source"],
        knobs=tuple(knobs),
        statistics=tuple(device["statistics"]),
        meter=device["meter"],
        no_meter=None if device["no_meter"] is None else tuple(device["no_meter"]),
        held_fixed={**device["held_fixed"], **held, **answer.get("trainer", {})},
        default_setting={knob.name: knob.default for knob in knobs if knob.default is not None},
        notes=(*device["notes"], *([f"the preset is not held in full: {', '.join(unheld)}"] if unheld else [])),
        writes={name: tuple(offered[name].get("files", ())) for name in (*names, *pins.values) if name in offered},
    )


def _default(knob: Mapping[str, Any], pins: Pins) -> float:
    """Where a preset holds a knob: its step next to what the preset says, since tables move with the release; without
    one, where the board was found."""
    wanted = pins.values.get(knob["name"])
    found: float = knob["default"]
    return found if wanted is None else min(knob["values"], key=lambda step: abs(step - wanted))


def _unheld(offered: Mapping[str, Any], held: Mapping[str, float], searched: Sequence[str], pins: Pins) -> list[str]:
    """What of a preset this board, as it was found, cannot hold: each knob with what it is asked and does instead."""
    found = []
    for name, wanted in pins.values.items():
        if name not in offered:
            found.append(f"{name} {wanted:g} (this board cannot set it)")
        elif name in held and f"{held[name]:g}" != f"{wanted:g}":
            found.append(f"{name} {wanted:g} (held at {held[name]:g})")
    for name, most in pins.most.items():
        if name in searched and min(offered[name]["values"]) > most:
            found.append(f"{name} at most {most:g} (it begins at {min(offered[name]['values']):g})")
    return found


def _default_batch(workload: WorkloadInfo | None) -> int | None:
    if workload is None or workload.train_samples is None:
        return workload.batch if workload else None
    return min(workload.batch, workload.train_samples)


def _batch_knob(workload: WorkloadInfo | None, wanted: Sequence[float] | None) -> Knob:
    """The batch sizes: those asked for, or the usual ones as far as there are samples.

    Raises:
        InputError: a batch larger than the training data, or no batch size at all.
    """
    most = workload.train_samples if workload else None
    if wanted is None:
        chosen: Sequence[float] = [b for b in DEFAULT_BATCHES if most is None or b <= most] or [1]
    else:
        chosen = sorted(set(check_batches(wanted)))
        if most is not None and chosen[-1] > most:
            raise InputError(
                f"batch_size {chosen[-1]:g} is larger than the training data, {most} samples",
                hint="smaller values: --values batch_size=...",
            )
    return Knob(BATCH_KNOB, tuple(knob_value(v) for v in chosen), _default_batch(workload))
