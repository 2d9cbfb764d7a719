"""A full training: its numbers, events and refusals."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from devices.agent import workloads
from devices.agent.trainer import training
from devices.agent.trainer.loop import LossError
from devices.training import TrainingResult

from .tiny import Run, Tiny, Tokens, weights_of


def test_a_result_has_the_fields_of_the_seam(tmp_path: Path) -> None:
    run = Run(tmp_path / "checkpoints")
    result = run(out_dir=str(tmp_path / "out"), steps=60)
    assert list(result) == [field.name for field in fields(TrainingResult)]
    found = TrainingResult(**result)
    assert (found.steps, found.finished, found.resumed) == (60, True, False)
    assert found.checkpoint == str(tmp_path / "checkpoints" / "step-60.pt")
    assert found.throughput is not None
    assert found.duration_s is not None
    assert found.throughput == pytest.approx(60 / 3 * 20 / found.duration_s)
    workload = Tiny()
    model = workload.model()
    model.load_state_dict(weights_of(tmp_path / "out" / "model.pt"))
    points, labels = workload.test_data()[:]
    assert found.test_accuracy == (model(points).argmax(1) == labels).double().mean()
    assert found.test_loss == pytest.approx(nn.functional.cross_entropy(model(points), labels).item())


def test_the_weights_do_not_depend_on_the_micro_batch(tmp_path: Path) -> None:
    for micro_batch in (1, 3, 8, 64):
        Run(tmp_path / str(micro_batch), Tokens())(micro_batch=micro_batch, out_dir=str(tmp_path / str(micro_batch)))
        found = weights_of(tmp_path / str(micro_batch) / "model.pt")
        torch.testing.assert_close(found, weights_of(tmp_path / "1" / "model.pt"), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("steps", [3, 4, 6, 7])
def test_the_final_loss_is_that_of_the_last_epoch_or_its_part(steps: int, tmp_path: Path) -> None:
    workload = Tiny()
    sums: list[tuple[float, int]] = []
    plain = workload.loss
    workload.loss = lambda model, batch: seen(plain(model, batch))  # type: ignore[method-assign]

    def seen(returned: Any) -> Any:
        if returned[0].requires_grad:
            sums.append((returned[0].item(), returned[1]))
        return returned

    result = Run(tmp_path, workload)(steps=steps, micro_batch=8)  # 8, 8 and 4 samples an epoch
    last = sums[(steps - 1) // 3 * 3 :]
    assert result["final_train_loss"] == pytest.approx(sum(s for s, _ in last) / sum(n for _, n in last))


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_S", 0.0)
    run = Run(tmp_path)
    run()
    assert run.phases() == ["train", "checkpoint", "checkpoint", "train", "checkpoint", "test"]
    first, last = [event for event in run.events if event["phase"] == "train"]
    assert (first["step"], first["steps"], first["epoch"]) == (1, 7, 1)
    assert (last["step"], last["epoch"]) == (7, 3)
    assert (first["learning_rate"], last["learning_rate"]) == (0.05, 0.2)
    assert last["throughput"] > 0
    assert last["elapsed_s"] > first["elapsed_s"] > 0
    assert [event["path"][-9:] for event in run.events if event["phase"] == "checkpoint"] == [
        "step-3.pt",
        "step-6.pt",
        "step-7.pt",
    ]
    monkeypatch.setattr(training, "EVENT_S", 0.0)
    run()
    assert [event["step"] for event in run.events if event["phase"] == "train"] == [1, 2, 3, 4, 5, 6, 7]


def test_checkpoints_are_at_least_a_second_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def tick() -> float:
        nonlocal now
        now += 0.05
        return now

    monkeypatch.setattr(time, "monotonic", tick)
    run = Run(tmp_path)
    told: list[tuple[float, dict[str, Any]]] = []
    run(tell=lambda event: told.append((now, event)), steps=90)
    for phase, apart in (("checkpoint", training.CHECKPOINT_S), ("train", training.EVENT_S)):
        times = [at for at, event in told if event["phase"] == phase]
        assert len(times) > 4
        assert all(b - a >= apart for a, b in itertools.pairwise(times[:-1]))


def test_the_same_seed_gives_the_same_training(tmp_path: Path) -> None:
    losses = [
        Run(tmp_path / str(number), Tiny(dropout=0.2))(seed=seed)["final_train_loss"]
        for number, seed in enumerate((1, 1, 2))
    ]
    assert losses[0] == losses[1] != losses[2]


def test_without_test_data_there_is_no_accuracy(tmp_path: Path) -> None:
    run = Run(tmp_path, Tiny(test=0))
    result = run()
    assert (result["test_accuracy"], result["test_loss"], result["finished"]) == (None, None, True)
    assert "test" not in run.phases()


def test_without_evaluate_there_is_a_loss(tmp_path: Path) -> None:
    workload = Tiny()
    workload.evaluate = None  # type: ignore[method-assign, assignment]
    result = Run(tmp_path, workload)()
    assert result["test_accuracy"] is None
    assert result["test_loss"] > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"effective_batch": 21}, "effective batch of 21 is larger than the training data, 20 samples; .*at most 20"),
        ({"micro_batch": 0}, "micro-batch must be a whole number >= 1, not 0"),
        ({"micro_batch": 2.5}, "micro-batch must be"),
        ({"effective_batch": 0}, "effective batch must be"),
        ({"learning_rate": math.nan}, "learning rate must be a finite number"),
        ({"learning_rate": 0.0}, "learning rate must be above 0"),
        ({"warm_up_from": math.inf}, "warm-up begins with must be a finite number"),
        ({"warm_up_steps": -1}, "steps of the warm-up must be"),
        ({"steps": 0}, "number of steps must be"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_anything_is_written(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        Run(tmp_path / "checkpoints")(**{"out_dir": str(tmp_path / "out"), **change})
    assert list(tmp_path.iterdir()) == []


def test_without_training_data_nothing_is_trained(tmp_path: Path) -> None:
    workload = Tiny()
    workload.train_data = lambda: None  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"train_data\(\) gives nothing"):
        Run(tmp_path, workload)()


def test_a_loss_that_is_no_number_says_where(tmp_path: Path) -> None:
    workload = Tiny()
    plain = workload.loss
    calls = 0

    def loss(model: nn.Module, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        total, count = plain(model, batch)
        return (total * math.nan if calls > 12 else total), count

    workload.loss = loss  # type: ignore[method-assign]
    run = Run(tmp_path, workload)
    with pytest.raises(LossError, match=r"the loss is nan in step 5 of 7, at learning rate 0\.2"):
        run()
    assert run.names() == [".lock", "step-3.pt"]


def test_a_test_loss_that_is_no_number_is_none(tmp_path: Path) -> None:
    workload = Tiny()
    plain = workload.loss
    workload.loss = lambda model, batch: (  # type: ignore[method-assign]
        plain(model, batch)[0] * (1 if model.training else math.inf),
        8,
    )
    run = Run(tmp_path, workload)
    assert run()["test_loss"] is None
    assert run.notes() == ["the loss on the test data is inf"]


class Normalized(Tiny):
    """Normalizes over the batch, of which torch takes no single sample."""

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


@pytest.mark.parametrize(("micro_batch", "samples"), [(7, 24), (2, 21), (8, 25), (3, 22)])
def test_batch_norm_meets_no_single_sample(micro_batch: int, samples: int, tmp_path: Path) -> None:
    run = Run(tmp_path, Normalized(train=samples))
    assert run(micro_batch=micro_batch, out_dir=str(tmp_path))["finished"]
    expected = f"are those of a micro-batch, {micro_batch} samples, not of the 8 of a step"
    assert [expected in note for note in run.notes()] == [True] * (micro_batch < 8)
    assert weights_of(tmp_path / "model.pt")["1.num_batches_tracked"] > 0


def test_earlier_training_modes_survive_a_single_sample(tmp_path: Path) -> None:
    """The single sample's step is normalized by running statistics, the next by its own again."""
    workload = Normalized(train=9)
    modes: list[tuple[int, bool]] = []
    plain = workload.loss

    def loss(model: Any, batch: Any) -> Any:
        if model.training:
            modes.append((len(batch[1]), model[1].training))
        return plain(model, batch)

    workload.loss = loss  # type: ignore[method-assign]
    Run(tmp_path, workload)(micro_batch=8, steps=4)
    assert modes == [(8, True), (1, False), (8, True), (1, False)]


def test_digits_are_learnt(tmp_path: Path) -> None:
    workload = workloads.load("digits-cnn")
    rate = workload.reference_lr
    plan = {"effective_batch": 32, "micro_batch": 12, "learning_rate": rate, "warm_up_from": rate, "steps": 6 * 45}
    assert Run(tmp_path, workload)(**plan)["test_accuracy"] >= 0.95
