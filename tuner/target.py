"""From the user's words to a device: which one answers, with which preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devices.catalog import Board, Preset, find_board
from devices.device import (
    HERE,
    LOCAL_DEVICES,
    Access,
    Device,
    DeviceInfo,
    WorkloadSpec,
    board_here,
    open_device,
    refuse_meter,
)
from devices.emulated import EmulatedDevice
from devices.errors import InputError
from devices.measurement import Measurement
from devices.remote import local_info
from tuner.checks import check_cap
from tuner.goal import Cap, Goal
from tuner.units import watts

AUTO_PRESET = "auto"


@dataclass(frozen=True)
class PresetChoice:
    """A preset and why.

    Attributes:
        name: The preset.
        predicted: What the model of the board predicts for its best setting under the cap, or its lowest power
            where none holds it.
        feasible: Whether that is within the cap.
        reason: A sentence for the user.
    """

    name: str
    predicted: Measurement
    feasible: bool
    reason: str


def choose_preset(
    board: Board,
    workload: WorkloadSpec,
    goal: Goal,
    cap: Cap | None,
    values: Mapping[str, Sequence[float]] | None = None,
) -> PresetChoice:
    """The preset whose best clock and batch size under the cap are predicted to be the best of all, by the board's
    physics. Knobs that are searched besides are left at what the preset pins.

    Raises:
        InputError: a knob, value or workload the board does not have.
    """
    best: tuple[bool, float, str, Measurement] | None = None
    values = {name: listed for name, listed in (values or {}).items() if name not in board.extra_knobs}
    refusal: InputError | None = None
    for preset in board.presets:
        try:
            device = EmulatedDevice(board, preset=preset.name, values=values)
        except InputError as error:  # a preset that caps the GPU clock lacks its upper steps
            refusal = error
            continue
        for setting in device.describe().enumerate_settings():
            predicted = device.predict(setting, workload)
            value = goal.estimate(predicted)
            if value is None:
                continue
            power = predicted.power(cap.statistic) if cap else None
            feasible = cap is None or (power is not None and power.value <= cap.watts)
            merit = (value.value if goal.maximize else -value.value) if feasible else -(power.value if power else 0.0)
            if best is None or (feasible, merit) > best[:2]:
                best = (feasible, merit, preset.name, predicted)
    if best is None and refusal is not None:
        raise refusal
    if best is None:
        raise InputError(
            f"no batch size fits into the memory of {board.name}", hint="a smaller model or picture: --workload-arg"
        )
    feasible, _, name, predicted = best
    return PresetChoice(name, predicted, feasible, _explain(board, name, goal, cap, feasible, predicted))


def _board_info(board: Board) -> DeviceInfo:
    return EmulatedDevice(board, preset=board.presets[0].name).describe()


def _explain(board: Board, name: str, goal: Goal, cap: Cap | None, feasible: bool, predicted: Measurement) -> str:
    preset = board.preset(name)
    if preset is None or cap is None:
        return f"preset {name}: predicted to give the best {goal.title} of {len(board.presets)}"
    power = predicted.power(cap.statistic)
    level = watts(power.value, 4) if power else "unknown power"
    text, asked = preset_text(board, preset), watts(cap.watts)
    if feasible:
        return f"preset {name} ({text}): predicted best in {goal.title} under {asked}, at {level} {cap.statistic}"
    return f"preset {name} ({text}): no preset is predicted to hold {asked}; this one comes lowest, at {level}"


def preset_text(board: Board, preset: Preset) -> str:
    """What a preset pins, in words: `4 CPU cores at 960 MHz, EMC at 2133 MHz, GPU at most 408 MHz`."""
    clock = "" if preset.cpu_freq_mhz is None else f" at {preset.cpu_freq_mhz:g} MHz"
    words = [f"{preset.cpu_cores} CPU cores{clock}"]
    if "emc_freq_mhz" in board.extra_knobs:
        words.append(f"EMC at {preset.emc_freq_mhz:g} MHz")
    if preset.gpu_max_mhz is not None:
        words.append(f"GPU at most {board.speed_steps(preset)[-1]:g} MHz")
    return ", ".join(words)


def open_target(
    name: str,
    workload: WorkloadSpec,
    goal: Goal,
    cap: Cap | None,
    *,
    preset: str = AUTO_PRESET,
    search: Sequence[str] = (),
    values: Mapping[str, Sequence[float]] | None = None,
    seed: int = 0,
    access: Access = HERE,
) -> tuple[Device, tuple[str, ...]]:
    """The device of that name with the preset asked for, and what the user should be told of the choice.

    Raises:
        InputError: unknown device, preset, knob, value or workload; a cap without a meter.
        DeviceError: this machine cannot train.
    """
    board = find_board(name)
    here = None if name in LOCAL_DEVICES else board_here(board.name if board is not None else name, access)
    if board is not None and here is None:
        refuse_meter(board.name, access)
    notes: tuple[str, ...] = ()
    if board is not None and here is not None and here != board.name:
        notes = (f"this is no {board.name} but a {here}",)
        board = find_board(here)
    if cap is not None or goal.needs_power:  # before the seconds a workload takes
        info = local_info(here or name, access) if here or name in LOCAL_DEVICES else None
        if info is None and board is not None:
            info = _board_info(board)
        if info is not None:
            check_cap(info, goal, cap.watts if cap else None, None)
    chosen: str | None = None if preset == AUTO_PRESET else preset
    if board is not None and chosen is None:
        choice = choose_preset(board, workload, goal, cap, values)
        chosen, notes = choice.name, (*notes, choice.reason)
        if search:
            notes = (*notes, f"searched besides, from there: {', '.join(search)}")
    device = open_device(name, workload, preset=chosen, search=search, values=values, seed=seed, access=access)
    return device, notes
