"""Facts about known boards, one TOML file each: names, steps, presets and the parameters of the emulation."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devices.catalog.parts import (
    BOARD_KNOBS,
    CONSUMERS,
    CPU_KNOB,
    GPU_KNOB,
    Curve,
    Gpu,
    Memory,
    Meter,
    Power,
    Preset,
    Protocol,
    Timing,
)
from devices.device import Pins
from devices.errors import InputError

__all__ = [
    "BOARD_KNOBS",
    "CONSUMERS",
    "CPU_KNOB",
    "GPU_KNOB",
    "Board",
    "Curve",
    "Meter",
    "Preset",
    "find_board",
    "load_catalog",
]


@dataclass(frozen=True)
class Board:
    """A board that can be emulated. Clocks in MHz, ascending.

    Attributes:
        gpu_freq_mhz: Empty on a board whose CPU trains.
        emc_freq_mhz: Clocks of the memory; one where it is fixed.
        gpu: None on a board whose CPU trains.
        meter: None on a board that cannot tell its power: no cap can be held.
    """

    name: str
    aliases: tuple[str, ...]
    model: str
    cpu_freq_mhz: tuple[float, ...]
    cpu_cores: tuple[int, ...]
    emc_freq_mhz: tuple[float, ...]
    default_batch: int
    held_fixed: Mapping[str, Any]
    notes: tuple[str, ...]
    presets: tuple[Preset, ...]
    timing: Timing
    power: Power
    memory: Memory
    protocol: Protocol
    gpu_freq_mhz: tuple[float, ...] = ()
    gpu: Gpu | None = None
    meter: Meter | None = None

    def steps(self, knob: str) -> tuple[float, ...]:
        """The values of the board for one of `BOARD_KNOBS`; empty where it does not have that knob."""
        return {
            GPU_KNOB: self.gpu_freq_mhz,
            "cpu_cores": self.cpu_cores,
            CPU_KNOB: self.cpu_freq_mhz,
            "emc_freq_mhz": self.emc_freq_mhz,
        }[knob]

    @property
    def speed_knob(self) -> str:
        """The clock of what trains, which is always searched: the GPU's where there is one, else the CPU's."""
        return GPU_KNOB if self.gpu is not None else CPU_KNOB

    @property
    def pinned_knobs(self) -> tuple[str, ...]:
        """The knobs a preset pins: all others."""
        return tuple(name for name in BOARD_KNOBS if name != self.speed_knob and self.steps(name))

    @property
    def extra_knobs(self) -> tuple[str, ...]:
        """The pinned knobs that can be searched too: those with a choice."""
        return tuple(name for name in self.pinned_knobs if len(self.steps(name)) > 1)

    def preset(self, name: str) -> Preset | None:
        """The preset of that name in any case of letters, or None."""
        return next((p for p in self.presets if p.name.lower() == name.lower()), None)

    def known_preset(self, name: str) -> Preset:
        """The preset of that name in any case of letters.

        Raises:
            InputError: there is none; the presets are named.
        """
        preset = self.preset(name)
        if preset is None:
            raise InputError(
                f"{self.name} has no preset '{name}'", hint=f"presets: {', '.join(p.name for p in self.presets)}"
            )
        return preset

    def pins(self, name: str) -> Pins:
        """What the preset of that name holds, of what the board can set, and the clock it limits.

        Raises:
            InputError: there is no such preset.
        """
        preset = self.known_preset(name)
        pinned = {knob: value for knob in self.extra_knobs if (value := preset.pinned(knob)) is not None}
        return Pins(pinned, {} if preset.gpu_max_mhz is None else {GPU_KNOB: preset.gpu_max_mhz})

    def speed_steps(self, preset: Preset) -> tuple[float, ...]:
        """The values of the speed knob that a preset leaves open."""
        steps = self.steps(self.speed_knob)
        if self.speed_knob != GPU_KNOB or preset.gpu_max_mhz is None:
            return steps
        return tuple(step for step in steps if step <= preset.gpu_max_mhz)


def load_catalog() -> tuple[Board, ...]:
    """Every board of the catalog, by name."""
    return _load()


def find_board(name: str) -> Board | None:
    """The board of that name or alias, in any case of letters; None where it is unknown."""
    wanted = name.lower()
    return next((board for board in _load() if wanted in (board.name, *board.aliases)), None)


@functools.cache
def _load() -> tuple[Board, ...]:
    return tuple(_read_board(path) for path in sorted(Path(__file__).parent.glob("*.toml"), key=lambda path: path.stem))


def _read_board(path: Path) -> Board:
    """A field that is missing or unknown is a TypeError: the files are ours, and a test reads all of them."""
    document = _frozen(tomllib.loads(path.read_text(encoding="utf-8")))
    parts = {"timing": Timing, "gpu": Gpu, "power": Power, "memory": Memory, "meter": Meter, "protocol": Protocol}
    document |= {name: part(**document[name]) for name, part in parts.items() if name in document}
    document["presets"] = tuple(Preset(name=name, **values) for name, values in document["presets"].items())
    return Board(**document)


def _frozen(value: Any) -> Any:
    """`value` with tuples for lists."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
