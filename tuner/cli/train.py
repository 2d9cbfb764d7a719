"""`tune train`: the full training, with what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuner.cli.command import TuneCommand
from tuner.cli.options import Whole, json_option, print_json
from tuner.interrupt import Interrupts

NOTHING_YET: dict[str, Any] = {
    **dict.fromkeys(("device", "source", "frozen", "frozen_source", "workload", "setting", "test_accuracy")),
    **dict.fromkeys(("test_loss", "final_train_loss", "throughput", "energy_j", "power_mean_w", "time_over_cap_s")),
    **dict.fromkeys(("duration_s", "micro_batch", "effective_batch", "accumulation_steps", "learning_rate")),
    **dict.fromkeys(("lr_scaling", "recipe", "warm_up_steps", "steps", "steps_planned", "epochs", "seed")),
    "resumed": False,
    "finished": False,
    **dict.fromkeys(("checkpoint", "out")),
    "notes": [],
    "go_on": None,
}
"""The document of a training that was interrupted before it was decided."""

POSITIVE = Whole(min=1)
FOLDER = click.Path(path_type=Path)


@click.command(cls=TuneCommand)
@click.argument("frozen", type=click.Path(path_type=Path), metavar="FROZEN.json")
@click.option("--device", metavar="NAME", help="The device that trains.  [default: the frozen config's]")
@click.option("--python", metavar="PATH", help="The Python that trains, with its torch.  [default: this one]")
@click.option("--data", metavar="PATH", help="The training data.  [default: the frozen config's]")
@click.option(
    "--effective-batch", type=POSITIVE, metavar="N", help="Samples of an optimizer step.  [default: frozen config's]"
)
@click.option("--epochs", type=POSITIVE, metavar="N", help="How often every sample is seen.  [default: 20]")
@click.option("--steps", type=POSITIVE, metavar="N", help="Optimizer steps, instead of epochs.")
@click.option("--seed", type=Whole(0, 2**63 - 1), metavar="N", help="Of weights and order.  [default: frozen config's]")
@click.option(
    "--lr-scaling",
    type=click.Choice(["auto", "linear", "sqrt", "none"]),
    help="How the learning rate follows the effective batch.  [default: auto: sqrt for the Adam family, else linear]",
)
@click.option(
    "--decay",
    type=click.Choice(["constant", "linear", "cosine"]),
    help="Of the learning rate after the warm-up.  [default: constant]",
)
@click.option("--clip-norm", type=float, metavar="X", help="Longest gradient of an optimizer step.  [default: any]")
@click.option(
    "--precision", type=click.Choice(["fp32", "bf16", "fp16"]), help="Of the forward passes.  [default: fp32]"
)
@click.option(
    "--batch-norm",
    type=click.Choice(["plain", "frozen", "group"]),
    help="As it is, with frozen statistics, or replaced by group normalization.  [default: plain]",
)
@click.option("--checkpoint-dir", type=FOLDER, metavar="DIR", help="Folder of the checkpoints.  [default: checkpoints]")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint, if there is one.")
@click.option("--out", type=FOLDER, metavar="DIR", help="Folder for model.pt and result.json.")
@click.option("--accept-source", is_flag=True, help="Train with figures that were emulated or replayed.")
@json_option
def train(**options: Any) -> int:
    """Train with a frozen config: its batch size is accumulated up to the effective batch, the learning rate matches.

    Ctrl-C ends after the running optimizer step, with a checkpoint; the same command with --resume goes on.

    \b
    tune train frozen.json --out trained
    tune train frozen.json --effective-batch 128 --epochs 20
    tune train frozen.json --device cpu --accept-source      an emulated setting
    """
    as_json = options.pop("as_json")
    said = "ending after this optimizer step, with a checkpoint; Ctrl-C again ends at once"
    try:
        with Interrupts(lambda _: click.echo(said, err=True)) as interrupts:
            from tuner.report.training import TrainingScreen
            from tuner.training_request import TrainRequest
            from tuner.training_session import train as run_training

            given = {name: value for name, value in options.items() if value is not None}
            finished = run_training(TrainRequest(**given), TrainingScreen(quiet=as_json), interrupts)
    except KeyboardInterrupt:  # twice, before it was decided what to train
        if as_json:
            print_json(NOTHING_YET)
        return 130
    if as_json:
        print_json(finished.document)
    return finished.exit_status
