"""Batches and learning rate of a frozen config for loops that accumulate whole micro-batches, as other libraries do.

`tune train` meets every effective batch exactly, by a smaller last micro-batch; a library that is told a batch size
and a number of micro-batches can only see their product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from devices.errors import InputError
from devices.training import WorkloadInfo
from tuner.frozen_check import FrozenTraining
from tuner.learning_rate import rule_for
from tuner.training import follow_rate

SMALLEST_SHARE = 0.75  # of the tuned micro-batch: a smaller one is no longer what was tuned
_MOST_TRIED = 10_000


@dataclass(frozen=True)
class Batches:
    """What an optimizer step is made of.

    Attributes:
        micro_batch: Samples of a forward and backward pass.
        accumulation_steps: Micro-batches of an optimizer step.
        learning_rate: That of their product, or None where the study knew none.
        notes: Sentences for the user on how this differs from the frozen config.
    """

    micro_batch: int
    accumulation_steps: int
    learning_rate: float | None
    notes: tuple[str, ...] = ()

    @property
    def effective_batch(self) -> int:
        """Samples of an optimizer step."""
        return self.micro_batch * self.accumulation_steps


def whole_batches(config: FrozenTraining) -> Batches:
    """Whole micro-batches for a frozen config: its effective batch exactly, where a micro-batch not much smaller than
    the tuned one divides it, else the nearest one that the tuned micro-batch gives.

    Raises:
        InputError: a learning rate that is no finite number for that effective batch.
    """
    tuned, notes = config.micro_batch, []
    wanted = config.effective_batch or max(tuned, config.reference.batch if config.reference else 0)
    micro = _divisor(wanted, tuned)
    if micro is None:
        micro, steps = tuned, max(round(wanted / tuned), 1)
        notes.append(
            f"the effective batch is {micro * steps}, not {wanted}, which is no multiple of the micro-batch {micro}; "
            "tune train meets it exactly"
        )
    else:
        steps = wanted // micro
        if micro < tuned:
            why = "above" if wanted < tuned else "no divisor of"
            notes.append(f"the micro-batch is {micro}, not {tuned}, which is {why} the effective batch {wanted}")
    rate, note = _learning_rate(config, wanted, micro * steps)
    return Batches(micro, steps, rate, (*notes, *([note] if note else [])))


def _divisor(effective: int, micro: int) -> int | None:
    """The largest divisor of the effective batch that can stand for the micro-batch."""
    if effective <= micro:
        return effective
    least = max(math.ceil(micro * SMALLEST_SHARE), micro - _MOST_TRIED, 1)
    return next((size for size in range(micro, least - 1, -1) if effective % size == 0), None)


def _learning_rate(config: FrozenTraining, wanted: int, effective: int) -> tuple[float | None, str | None]:
    """The learning rate of an effective batch, and a sentence where the user must know more."""
    reference = config.reference
    if reference is None:
        if config.learning_rate is None:
            return None, "the study knew no learning rate, so none is given: keep your own"
        reference = WorkloadInfo(wanted, config.learning_rate, "")
    rule = rule_for(reference.optimizer)
    rate, note = follow_rate(config, reference, effective, rule)
    if not math.isfinite(rate):
        raise InputError(
            f"the learning rate scaled to an effective batch of {effective} is no finite number",
            hint=f"a smaller learning_rate in {config.path}",
        )
    if note is None and effective > reference.batch and rate > reference.learning_rate:
        note = (
            f"the learning rate {rate:g} is above the {reference.learning_rate:g} of a batch of {reference.batch}: "
            "let it grow from there over the first tenth of the steps, as tune train does"
        )
    return rate, note
