"""Bursts through the agent's own code on fake boards that misbehave: no wrong one may be called `ok`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from devices.catalog import find_board
from devices.device import BurstPlan, Setting, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.errors import DeviceError
from devices.fake.board import FakeBoard
from devices.fake.faults import FAULTS, Fault
from devices.fake.link import fake_device
from devices.fake.turns import TurnClock
from devices.measurement import Measurement, Status

WORKLOAD = WorkloadSpec("resnet18")
MODELS = {"jetson-orin-nano": "15W", "jetson-nano": "MAXN", "jetson-xavier-nx": "MODE_15W_2CORE"}
FOREVER = ("no-permission", "read-only")  # of a board from the beginning, not of a burst
LATEST_S = 22.0  # of a burst; it is over then
NEAR = 0.04  # relative: what noise may do to an `ok` burst's throughput
NEAR_POWER = 0.08
CHANGED = {"mode-changed", "cpu-offline", "clock-narrowed"}  # by somebody else, for good: not ours to put back


@dataclass
class Run:
    """What one board did and what was said of it.

    Attributes:
        statuses: Of every burst, `refused: ...` and `lost` included.
        wrong: Bursts called `ok` whose figures are not those of their setting.
        left: Files that hold something else than before, at the end.
    """

    model: str
    faults: tuple[Fault, ...]
    statuses: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def torture(model: str, faults: Sequence[Fault], seed: int, bursts: int = 2) -> Run:
    """A few bursts at random settings on a board with these faults."""
    board = FakeBoard(model, clock=TurnClock(), faults=faults, seed=seed)
    catalog = find_board(model)
    assert catalog is not None
    emulated = EmulatedDevice(catalog, preset=board.modes[board.mode].name if board.modes else catalog.presets[0].name)
    chosen, run = random.Random(seed), Run(model, tuple(faults))
    before = _state(board)
    for _ in range(2):  # a board that was lost is opened again
        try:
            with fake_device(board, WORKLOAD) as device:
                knobs = device.describe().knobs
                while len(run.statuses) < bursts:
                    setting = {knob.name: chosen.choice(knob.values) for knob in knobs}
                    setting["batch_size"] = chosen.choice((4, 16, 32))
                    found = device.measure(setting, WORKLOAD, BurstPlan(cap_w=1000.0))
                    run.statuses.append(found.status.value)
                    run.wrong += _wrong(emulated, setting, found)
        except DeviceError as error:
            lost = "stopped answering" in error.message
            run.statuses.append("lost" if lost else f"refused: {error.message}")
            if not lost:
                break
        else:
            break
    if board.boots == before["boots"] and not CHANGED.intersection(fault.name for fault in faults):
        run.left = [name for name, text in _state(board).items() if before.get(name) != text]
    return run


def _wrong(emulated: EmulatedDevice, setting: Setting, found: Measurement) -> Iterator[str]:
    if found.status is not Status.OK:
        return
    true = emulated.predict(setting, WORKLOAD)
    for name, near in (("throughput", NEAR), ("power_mean_w", NEAR_POWER)):
        value, wanted = getattr(found, name), getattr(true, name)
        if value is None or wanted is None or abs(value / wanted - 1) > near:
            yield f"{dict(setting)}: {name} {value}, {wanted} by the physics"


def _state(board: FakeBoard) -> dict[str, object]:
    """What the agent may have written, and must put back."""
    found: dict[str, object] = {"boots": board.boots}
    for i, clock in enumerate(board.limited_clocks):
        found[f"limits of clock {i}"] = clock.limits
    found["online"] = board.read("/sys/devices/system/cpu/online")
    return found


def random_faults(chosen: random.Random) -> list[Fault]:
    """One to three faults at random moments of the first two bursts."""
    names = [name for name in FAULTS if name not in FOREVER]
    return [
        Fault(chosen.choice(names), burst=chosen.randint(1, 2), at_s=round(chosen.uniform(0, LATEST_S), 1))
        for _ in range(chosen.randint(1, 3))
    ]


def campaign(runs: int, seed: int = 0) -> Iterator[Run]:
    """Runs with random faults on random boards."""
    chosen = random.Random(seed)
    for i in range(runs):
        yield torture(chosen.choice(list(MODELS)), random_faults(chosen), seed=i)


def table() -> Iterator[tuple[str, str, str]]:
    """Every fault alone, in the window of a burst: its name, what it is, what the product said of that burst."""
    for name, kind in FAULTS.items():
        fault = Fault(name, burst=0 if name in FOREVER else 1)
        run = torture("jetson-orin-nano", [fault], seed=1, bursts=2)
        counts = Counter(run.statuses)
        said = ", then ".join(counts) + ("; WRONG" if run.wrong else "")
        yield name, kind.what, said
