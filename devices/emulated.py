"""EmulatedDevice: a physical model of a board answers in the board's place, in virtual time.

Its noise is a function of (seed, setting, workload, replicate) alone: equal calls give equal answers, whatever was
measured before. Only the cost of a burst knows history: the first one of an instance pays for the trainer's start.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from devices.catalog import GPU_KNOB, Board, Preset
from devices.cost import StepCost, count_step, workload_info
from devices.device import BATCH_KNOB, BurstPlan, Device, DeviceInfo, EventSink, Knob, Setting, WorkloadSpec, knob_value
from devices.emulated_burst import expected_measurement, simulate_burst
from devices.errors import InputError, UnsupportedError
from devices.knobs import DEFAULT_BATCHES, check_batches, check_setting, check_steps
from devices.measurement import Measurement, Status
from devices.physics import Clocks, Load, memory_mib, operate, rails
from devices.training import WorkloadInfo


class EmulatedDevice(Device):
    """A board of the catalog, emulated. Measures in milliseconds; `cost_s` and `cost_j` tell what a board would take.

    Without a meter no power is found, and the cost in joules is unknown: 0.

    Args:
        board: The board, from `devices.catalog.find_board`.
        preset: What a power mode pins: the name of one of the board's presets.
        search: Pinned names (`Board.extra_knobs`) to search too, after the two base knobs.
        values: Lists of values that replace a knob's own.
        seed: Seed of the noise.
        reference_batch: Batch size of the default setting; without it the board's own.

    Raises:
        InputError: unknown preset or knob, or a value that is no step of the board.
    """

    def __init__(
        self,
        board: Board,
        *,
        preset: str,
        search: Sequence[str] = (),
        values: Mapping[str, Sequence[float]] | None = None,
        seed: int = 0,
        reference_batch: int | None = None,
    ) -> None:
        self._board = board
        self._preset = board.known_preset(preset)
        self._seed = seed
        batch = board.default_batch if reference_batch is None else reference_batch
        self._knobs = {knob.name: knob for knob in _make_knobs(board, self._preset, search, values or {}, batch)}
        self._info = self._make_info()
        self._trainer_started = False
        self._aborted = threading.Event()

    def describe(self) -> DeviceInfo:
        return replace(self._info, default_setting=dict(self._info.default_setting or {}))

    def predict(self, setting: Setting, workload: WorkloadSpec, accumulation: int = 1) -> Measurement:
        """What a burst at `setting` finds on average: status `ok` or `oom`, without noise, standard errors 0.

        Raises:
            InputError: as `measure`.
        """
        clocks, batch_size = self._resolve(setting)
        cost = count_step(workload)
        shortage = self._shortage(cost, batch_size)
        if shortage is not None:
            return Measurement(Status.OOM, "emulated", reason=shortage)
        return expected_measurement(
            self._board, operate(self._board, clocks, cost, batch_size, accumulation), batch_size
        )

    def measure(
        self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
    ) -> Measurement:
        clocks, batch_size = self._resolve(setting)
        self._check_cap(plan)
        cost = count_step(workload)
        self._aborted.clear()
        protocol = self._board.protocol
        metered = self._board.meter is not None
        waiting_w = rails(self._board, clocks, Load()).total_w if metered else 0.0
        before_s = protocol.setting_change_s + (0.0 if self._trainer_started else protocol.first_step_s)
        self._trainer_started = True

        def tell(phase: str, elapsed_s: float, power_w: float) -> None:
            if on_event is not None:
                on_event({"phase": phase, "elapsed_s": elapsed_s} | ({"power_w": power_w} if metered else {}))

        tell("apply", 0.0, waiting_w)
        shortage = self._shortage(cost, batch_size)
        if shortage is not None:
            before_s += protocol.first_step_s  # the trainer dies and starts again
            burst = Measurement(Status.OOM, "emulated", reason=shortage)
        else:
            point = operate(self._board, clocks, cost, batch_size, plan.accumulation)
            tell("warm-up", before_s, point.rails.total_w)
            tell("window", before_s + protocol.warm_up_s, point.rails.total_w)
            generator = self._generator(clocks, batch_size, workload, plan.replicate)
            burst = simulate_burst(self._board, clocks, point, batch_size, plan, generator)
        if self._aborted.is_set():
            burst = Measurement(Status.ABORTED, "emulated", reason="aborted on request")
        return replace(burst, cost_s=burst.cost_s + before_s, cost_j=burst.cost_j + before_s * waiting_w)

    def inspect(self, workload: WorkloadSpec) -> WorkloadInfo | None:
        return workload_info(workload)

    def abort(self) -> None:
        self._aborted.set()  # seen when the burst's events have been told; without a burst the next one clears it

    def _make_info(self) -> DeviceInfo:
        pinned = {name: self._preset.pinned(name) for name in self._board.pinned_knobs if name not in self._knobs}
        meter = self._board.meter
        notes = self._board.notes if self._preset.note is None else (*self._board.notes, self._preset.note)
        return DeviceInfo(
            name=self._board.name,
            model=self._board.model,
            source="emulated",
            knobs=tuple(self._knobs.values()),
            statistics=("p95", "peak", "mean") if meter is not None else (),
            meter=meter.rail if meter is not None else None,
            held_fixed={"preset": self._preset.name, **pinned, **self._board.held_fixed},
            default_setting={name: knob.default for name, knob in self._knobs.items() if knob.default is not None},
            notes=notes,
        )

    def _resolve(self, setting: Setting) -> tuple[Clocks, int]:
        """Clocks and batch size of a setting that names every knob of this device, and no other."""
        check_setting(self._info, setting)
        pinned = {name: self._preset.pinned(name) for name in self._board.pinned_knobs}
        values = {name: value for name, value in (pinned | dict(setting)).items() if value is not None}
        clocks = Clocks(
            gpu_freq_mhz=values.get(GPU_KNOB, 0.0),
            cpu_cores=int(values["cpu_cores"]),
            cpu_freq_mhz=values["cpu_freq_mhz"],
            emc_freq_mhz=values["emc_freq_mhz"],
        )
        return clocks, int(setting[BATCH_KNOB])

    def _check_cap(self, plan: BurstPlan) -> None:
        """Refuse a cap on what the board cannot tell."""
        if plan.cap_w is None or plan.statistic in self._info.statistics:
            return
        if self._board.meter is None:
            raise self.describe().without_meter("no cap can be held", "no cap")
        raise UnsupportedError(f"{self._board.name} does not give the {plan.statistic} of power")

    def _shortage(self, cost: StepCost, batch_size: int) -> str | None:
        """Why the batch does not fit into memory, or None."""
        needed, total = memory_mib(self._board, cost, batch_size), self._board.memory.total_mib
        if needed <= total:
            return None
        return f"batch {batch_size} needs about {needed:.0f} MiB of the {total:.0f} MiB shared with the system"

    def _generator(
        self, clocks: Clocks, batch_size: int, workload: WorkloadSpec, replicate: int
    ) -> np.random.Generator:
        key = [
            self._seed,
            self._board.name,
            *(float(value) for value in vars(clocks).values()),
            batch_size,
            workload.to_json(),
            replicate,
        ]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest, "big"))


def _make_knobs(
    board: Board, preset: Preset, search: Sequence[str], values: Mapping[str, Sequence[float]], batch_size: int
) -> Iterable[Knob]:
    always = (board.speed_knob, BATCH_KNOB)
    for name in search:
        if name not in (*always, *board.extra_knobs):
            raise InputError(
                f"{board.name} cannot search '{name}'", hint=f"--search takes: {', '.join(board.extra_knobs)}"
            )
    names = tuple(dict.fromkeys((*always, *search)))
    for name in values:
        if name in board.extra_knobs and name not in names:
            raise InputError(f"{name} is pinned by preset {preset.name}", hint=f"--search {name}")
        if name not in names:
            raise InputError(f"{board.name} has no knob '{name}'", hint=f"knobs: {', '.join(names)}")
    speed_steps = board.speed_steps(preset)
    for name in names:
        if name == BATCH_KNOB:
            yield _knob(name, check_batches(values.get(name, DEFAULT_BATCHES)), float(batch_size))
            continue
        steps = speed_steps if name == board.speed_knob else board.steps(name)
        pinned = None if name == board.speed_knob else preset.pinned(name)
        default = speed_steps[-1] if pinned is None else pinned
        yield _knob(name, check_steps(name, values.get(name, steps), steps), default)


def _knob(name: str, values: Sequence[float], default: float) -> Knob:
    return Knob(name, tuple(knob_value(v) for v in sorted(set(values))), knob_value(default))
