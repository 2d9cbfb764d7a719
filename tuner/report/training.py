"""What a person sees of a training: what is trained with what, progress, and the result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from devices.device import DeviceInfo, EventSink
from devices.training import Recipe
from tuner.report.console import console, count_bar
from tuner.report.text import count, figure, setting_text, source_text
from tuner.training import Training, last_micro_batch
from tuner.units import joules, seconds, watts

LINE_EVERY_S = 3.0  # without a terminal, at most


class TrainingScreen:
    """The text output of `tune train`. Quiet (`--json`): standard output stays free, progress goes to a terminal only.

    Args:
        quiet: Whether standard output belongs to the document.
        clock: Seconds that only grow.
    """

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._console = console(stderr=quiet)
        self._clock = clock

    def _print(self, text: str = "") -> None:
        if not self._quiet:
            self._console.print(text)

    def begin(self, info: DeviceInfo, training: Training) -> None:
        """The first lines: who trains, what, with what, and what should be known."""
        self._print(source_text(info.source, info.model or info.name))
        self._print(f"training {training.workload.spec}: {recipe(training)}")
        self._print(f"setting: {setting_text(training.plan.setting)}")
        for note in training.notes:
            self._print(f"note: {note}")

    @contextlib.contextmanager
    def progress(self, training: Training) -> Iterator[EventSink]:
        """A bar with loss, speed and what is left; without a terminal about one line an epoch."""
        if not self._console.is_terminal:
            yield self._plain(training)
            return
        bar = count_bar(self._console, "steps")
        with bar:
            task = bar.add_task("starting", total=training.plan.steps)

            def show(event: Mapping[str, Any]) -> None:
                if event["phase"] == "train":
                    bar.update(task, completed=event["step"], description=", ".join(_figures(event, training)))
                elif event["phase"] == "test":
                    bar.update(task, description="testing")
                elif event["phase"] == "note":
                    self._console.print(f"note: {event['text']}")

            yield show

    def _plain(self, training: Training) -> EventSink:
        last_epoch, last_time = 0, -LINE_EVERY_S

        def show(event: Mapping[str, Any]) -> None:
            nonlocal last_epoch, last_time
            if event["phase"] == "note":
                self._print(f"note: {event['text']}")
            if event["phase"] != "train":
                return
            epoch, now = event["epoch"], self._clock()
            if epoch > last_epoch and now - last_time >= LINE_EVERY_S:
                last_epoch, last_time = epoch, now
                self._print(f"step {event['step']}/{training.plan.steps}, {', '.join(_figures(event, training))}")

        return show

    def end(self, document: Mapping[str, Any]) -> None:
        """The result: accuracy, losses, speed, energy, and where the files are."""
        for line in summary(document):
            self._print(line)


def recipe(training: Training) -> str:
    """`micro-batch 64 x 2 = effective batch 128, learning rate 0.2, 10 epochs (450 steps), seed 0`."""
    plan = training.plan
    ragged = plan.effective_batch % training.micro_batch
    last = f" (the last of {last_micro_batch(plan.effective_batch, training.micro_batch)})" if ragged else ""
    rate = f"learning rate {plan.learning_rate:g} ({_course(training)})"
    steps = count(plan.steps, "step")
    length = f"{count_epochs(training.epochs)} ({steps})"
    return (
        f"micro-batch {training.micro_batch} x {training.accumulation_steps}{last} = effective batch "
        f"{plan.effective_batch}, {rate}{_extras(plan.recipe)}, {length}, seed {plan.seed}"
    )


def _course(training: Training) -> str:
    """`linear scaling, from 0.1 over 20 steps, then cosine`: where the learning rate comes from and where it goes."""
    plan = training.plan
    parts = ["not scaled" if training.lr_scaling == "none" else f"{training.lr_scaling} scaling"]
    if plan.warm_up_steps:
        parts.append(f"from {plan.warm_up_from:g} over {count(plan.warm_up_steps, 'step')}")
    return ", ".join(parts) + ("" if plan.recipe.decay == Recipe.decay else f", then {plan.recipe.decay} to 0")


def _extras(recipe: Recipe) -> str:
    """What differs from the usual, each with a comma before it."""
    parts = [] if recipe.clip_norm is None else [f"gradients clipped at {recipe.clip_norm:g}"]
    parts += [] if recipe.precision == Recipe.precision else [recipe.precision]
    parts += [] if recipe.batch_norm == Recipe.batch_norm else [f"batch norm {recipe.batch_norm}"]
    return "".join(f", {part}" for part in parts)


def count_epochs(epochs: float) -> str:
    """`1 epoch`, `2.5 epochs`."""
    return f"{epochs:.4g} epoch" + ("" if epochs == 1 else "s")


def summary(document: Mapping[str, Any]) -> list[str]:
    """The last lines of a training, from its document."""
    resumed = ", resumed from a checkpoint" if document["resumed"] else ""
    spent = "" if document["duration_s"] is None else f" in {seconds(document['duration_s'])}"
    speed = "" if document["throughput"] is None else f", {figure(document['throughput'])} samples/s"
    if document["finished"]:
        lines = ["", f"trained {count(document['steps'], 'step')}{spent}{speed}{resumed}"]
    else:
        lines = ["", f"interrupted after {document['steps']} of {document['steps_planned']} steps{spent}{resumed}"]
    losses = [
        f"{name} loss {figure(document[key])}"
        for name, key in (("test", "test_loss"), ("training", "final_train_loss"))
        if document[key] is not None
    ]
    if document["test_accuracy"] is not None:
        losses.insert(0, f"test accuracy {document['test_accuracy'] * 100:.2f} %")
    elif document["finished"]:
        losses.append("no test accuracy: the workload has no test data, or cannot tell")
    if losses:
        lines.append(", ".join(losses))
    if document["energy_j"] is not None:
        power = "" if document["power_mean_w"] is None else f", {watts(document['power_mean_w'], 3)} mean"
        over = "" if document["time_over_cap_s"] is None else f", {seconds(document['time_over_cap_s'])} above the cap"
        lines.append(f"{joules(document['energy_j'])}{power}{over}")
    if document["out"] is not None and document["finished"]:
        lines.append(f"model: {Path(document['out']) / 'model.pt'}, result: {Path(document['out']) / 'result.json'}")
    if document["checkpoint"] is not None:
        lines.append(f"checkpoint: {document['checkpoint']}")
    if document["go_on"] is not None:
        lines.append(f"go on with: {document['go_on']}")
    return lines


def _figures(event: Mapping[str, Any], training: Training) -> list[str]:
    """Epoch, loss, speed and remaining time of a training's event."""
    plan, speed, parts = training.plan, event.get("throughput"), []
    parts.append(f"epoch {event['epoch']}/{-(-training.epochs // 1):.0f}")
    if event.get("loss") is not None:
        parts.append(f"loss {figure(event['loss'])}")
    if speed:
        parts.append(f"{figure(speed)} samples/s")
        parts.append(f"{seconds((plan.steps - event['step']) * plan.effective_batch / speed)} left")
    return parts
