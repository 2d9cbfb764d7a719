"""`apply`: a frozen config in a training loop of one's own, its clocks held on this machine meanwhile.

from tuner import apply

with apply("frozen.json") as tuned:
    loader = DataLoader(data, batch_size=tuned.micro_batch, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=tuned.learning_rate)
    for window in tuned.windows(loader):
        for x, y in window:
            (loss(model(x), y) / len(window)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if tuned.over_cap:
            break
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from devices.catalog import find_board
from devices.device import HERE, LOCAL_DEVICES, Access, Setting, board_here
from devices.errors import InputError
from devices.hold import Hold, OverCap, Reading
from devices.measurement import Source, Statistic
from tuner.batches import Batches, whole_batches
from tuner.frozen import read_frozen
from tuner.frozen_check import FrozenTraining, frozen_training
from tuner.training import origin, provenance

READ_S = 1.0  # between two readings of the meter
THREADS = "cpu_threads"
Batch = TypeVar("Batch")


class Tuned:
    """A frozen config that is applied. Made by `apply`; not thread-safe.

    Attributes:
        micro_batch: Samples of a forward and backward pass: the batch size of the data loader.
        accumulation_steps: Passes of an optimizer step.
        effective_batch: Samples of an optimizer step.
        learning_rate: The learning rate that belongs to them, or None where the study knew none.
        setting: The frozen setting.
        cap_w: The cap in watts, or None.
        statistic: The statistic of power it holds on.
        source: Where the figures come from: `measured`, `emulated`, `replayed`.
        held: Whether clocks are held here; False: nothing but the numbers above is applied.
        notes: Sentences for the user; they were given as warnings too.
    """

    def __init__(
        self, config: FrozenTraining, batches: Batches, statistic: Statistic, hold: Hold | None, notes: tuple[str, ...]
    ) -> None:
        self.micro_batch = batches.micro_batch
        self.accumulation_steps = batches.accumulation_steps
        self.effective_batch = batches.effective_batch
        self.learning_rate = batches.learning_rate
        self.setting: Setting = dict(config.setting)
        self.cap_w = config.cap_w
        self.statistic: Statistic = statistic
        self.source: Source = config.source
        self.held = hold is not None
        self.notes = notes
        self._hold = hold
        self._read_s = 0.0
        self._reading = Reading()
        if hold is not None:
            self._read(hold)  # from now on the meter is sampled

    @property
    def reading(self) -> Reading:
        """What the meter says, and what slows this machine down; read anew once a second at most. After `apply` was
        left, the last one.

        Raises:
            DeviceLostError: the agent that holds the clocks has gone.
        """
        if self._hold is not None and monotonic() - self._read_s >= READ_S:
            self._read(self._hold)
        return self._reading

    @property
    def power(self) -> float | None:
        """Watts now, None without a meter. Raises DeviceLostError."""
        return self.reading.power_w

    @property
    def over_cap(self) -> OverCap | None:
        """How far and how long power was more than 10 % above the cap, if that was for more than 2 s, as it ends a
        burst; None as long as all is well, or cannot be told. Raises DeviceLostError."""
        return self.reading.over_cap

    def windows(self, loader: Iterable[Batch]) -> Iterator[list[Batch]]:
        """The micro-batches of a data loader, as many as an optimizer step takes at a time; the last window may be
        shorter.

        Raises:
            InputError: the data loader has another batch size.
        """
        size = getattr(loader, "batch_size", None)
        if size not in (None, self.micro_batch):
            raise InputError(
                f"the data loader gives batches of {size}, the micro-batch is {self.micro_batch}",
                hint="DataLoader(..., batch_size=tuned.micro_batch)",
            )
        return self._windows(iter(loader))

    def _windows(self, batches: Iterator[Batch]) -> Iterator[list[Batch]]:
        while window := list(islice(batches, self.accumulation_steps)):
            yield window

    def _read(self, hold: Hold) -> None:
        self._read_s = monotonic()
        self._reading = hold.read(self.cap_w, self.statistic)

    def _end(self) -> None:
        """Read the meter for the last time."""
        hold, self._hold = self._hold, None
        if hold is not None and not hold.closed:
            self._read(hold)


@contextmanager
def apply(frozen: str | os.PathLike[str], *, accept_source: bool = False, access: Access = HERE) -> Iterator[Tuned]:
    """Hold a frozen setting on this machine while entered; on leaving, everything is put back to what was found. It is
    too where this process dies.

    Args:
        frozen: The frozen config.
        accept_source: Also with figures that were not measured, and of another device than this machine: then its
            batch sizes and learning rate alone are applied.
        access: Another power meter, another root of the board's files.

    Raises:
        InputError: no frozen config, or one of another source or device.
        DeviceError: the clocks may not be set or do not hold, or, on leaving, could not be put back.
    """
    path = Path(frozen)
    document = read_frozen(path)
    config = frozen_training(document, path)
    batches = whole_batches(config)
    with ExitStack() as stack:
        hold = _open(config, accept_source, access)
        notes = [*batches.notes]
        if hold is None:
            notes.append(f"{config.device} is not this machine: no clock is held, and no cap")
        else:
            stack.enter_context(hold)
            notes += _hold(config, document.get("context"), hold, stack)
        statistic: Statistic = document["cap"]["statistic"] if document["cap"] else "p95"
        tuned = Tuned(config, batches, statistic, hold, tuple(notes))
        stack.callback(tuned._end)
        for note in notes:
            warnings.warn(note, stacklevel=3)  # of whoever enters
        yield tuned


def _open(config: FrozenTraining, accept_source: bool, access: Access) -> Hold | None:
    """This machine, where the frozen config is of it; None where it is not, and that is accepted.

    Raises:
        InputError: it is not, or its figures were not measured.
        DeviceError: no agent can be started.
    """
    board = find_board(config.device)
    name = config.device if board is None else board.name
    here = name if name in LOCAL_DEVICES else board_here(name, access)
    hint = "apply(..., accept_source=True)"
    if here is None:
        if not accept_source:
            text = f"{config.path} is of {config.device}, which is not this machine"
            raise InputError(text, hint=f"{hint} takes its batch sizes and learning rate alone")
        return None
    if config.source != "measured" and access.root == "/" and not accept_source:
        raise InputError(f"the figures of {config.path} {origin(config)}", hint=hint)
    return Hold(here, access)


def _hold(config: FrozenTraining, context: Any, hold: Hold, stack: ExitStack) -> list[str]:
    """Hold what the config says; sentences on what differs from it."""
    info = hold.info
    notes = [*provenance(config, info)]
    known = {knob.name for knob in info.knobs}
    notes += [f"{info.name} has no {name}: it is left alone" for name in config.setting if name not in known]
    hold.apply({**_pinned(context, hold), **config.setting})
    if THREADS in config.setting:
        _set_threads(int(config.setting[THREADS]), stack)
    if config.cap_w is not None and not info.statistics:
        notes.append(info.without_meter(f"the cap of {config.cap_w:g} W is not watched", "").message)
    return notes


def _pinned(context: Any, hold: Hold) -> dict[str, float]:
    """What the study held fixed and is otherwise now, as a power mode pins CPU and memory clocks."""
    held = context if isinstance(context, Mapping) else {}
    return {
        knob.name: held[knob.name]
        for knob in hold.knobs
        if knob.name in held and held[knob.name] in knob.values and held[knob.name] != knob.default
    }


def _set_threads(count: int, stack: ExitStack) -> None:
    import torch

    stack.callback(torch.set_num_threads, torch.get_num_threads())
    torch.set_num_threads(count)
