"""What a training may do beside its batches: clipping, half precision, decay, schedulers, batch normalization."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest
import torch
from torch import nn

from devices.agent.trainer import precision as precisions
from devices.agent.trainer import training
from devices.agent.trainer.data import windows
from devices.agent.trainer.loop import LossError, train_window
from devices.agent.trainer.norms import Norms
from devices.agent.trainer.precision import Precision
from devices.agent.trainer.schedule import Schedule, learning_rate
from devices.training import Recipe

from .test_loop import OPTIMIZERS
from .test_resume import learnt
from .tiny import CPU, Run, Tiny, Tokens, weights_of

HALVES = ["bf16", "fp16"]


class Single(Tiny):
    """In float32, so that half precision takes hold."""

    def model(self) -> nn.Module:
        return super().model().float()

    def _data(self, count: int, seed: int) -> Any:
        points, labels = super()._data(count, seed).tensors
        return self.kind(points.float(), labels)

    def example_input(self, batch_size: int) -> Any:
        points, labels = super().example_input(batch_size)
        return points.float(), labels


class Normalized(Tiny):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).double()


# ---- clipping


@pytest.mark.parametrize("kind", [Tiny, Tokens])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("micro_batch", [1, 5])
def test_clipped_steps_are_those_of_the_full_batch(kind: Any, optimizer: str, micro_batch: int) -> None:
    def weights(size: int, clip_norm: float | None) -> torch.Tensor:
        workload = kind(train=50)
        torch.manual_seed(0)
        model = workload.model()
        made = OPTIMIZERS[optimizer](model.parameters(), 0.05)
        for sizes, batches in itertools.islice(windows(workload.train_data(), 12, size, 0, 0), 7):
            train_window(workload, model, made, itertools.islice(batches, len(sizes)), clip_norm=clip_norm)
        return nn.utils.parameters_to_vector(model.parameters()).detach()

    torch.testing.assert_close(weights(micro_batch, 0.01), weights(12, 0.01), rtol=1e-6, atol=1e-12)
    assert not torch.allclose(weights(12, 0.01), weights(12, None))


def test_a_step_is_no_longer_than_the_clip() -> None:
    workload = Tiny()
    model = workload.model()
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    train_window(workload, model, optimizer, [workload.train_data()[:8], workload.train_data()[8:11]], clip_norm=0.02)
    after = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert float((after - before).norm()) == pytest.approx(0.02, rel=1e-3)


# ---- half precision


@pytest.mark.parametrize("name", HALVES)
def test_half_precision_computes_in_half_and_keeps_whole_weights(name: str) -> None:
    workload, types = Single(), []
    model: Any = workload.model()
    model[0].register_forward_hook(lambda module, inputs, output: types.append(output.dtype))
    batch = workload.train_data()[:8]
    train_window(workload, model, workload.optimizer(model.parameters(), 0.1), [batch], Precision(name, CPU))
    assert types == [{"bf16": torch.bfloat16, "fp16": torch.float16}[name]]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", HALVES)
def test_half_precision_learns_what_full_precision_learns(name: str, tmp_path: Path) -> None:
    plain = Run(tmp_path / "fp32", Single(train=200))(steps=100, micro_batch=4)
    run = Run(tmp_path / name, Single(train=200))
    half = run(steps=100, micro_batch=4, recipe=Recipe(precision=name))
    assert half["final_train_loss"] == pytest.approx(plain["final_train_loss"], rel=0.15)
    assert half["final_train_loss"] != plain["final_train_loss"]


def test_the_scaler_steps_once_a_window() -> None:
    workload = Single()
    model = workload.model()
    optimizer = workload.optimizer(model.parameters(), 0.1)
    half = Precision("fp16", CPU, 8)
    calls: list[str] = []
    scaler = half._scaler

    def told(name: str) -> Any:
        calls.append(name)
        return DEFAULT

    for name in ("unscale_", "step", "update"):
        setattr(scaler, name, Mock(wraps=getattr(scaler, name), side_effect=lambda *_, name=name: told(name)))
    batches = workload.train_data()
    train_window(workload, model, optimizer, [batches[:3], batches[3:6], batches[6:8]], half)
    assert calls == ["unscale_", "step", "update"]


def test_a_step_whose_gradients_overflow_is_left_out_and_said(tmp_path: Path) -> None:
    workload = Single()
    plain, calls = workload.loss, itertools.count()

    def loss(model: Any, batch: Any) -> Any:
        total, count = plain(model, batch)
        if next(calls) == 1:  # of the first step
            total.register_hook(lambda gradient: gradient * math.inf)
        return total, count

    workload.loss = loss  # type: ignore[method-assign]
    run = Run(tmp_path, workload)
    assert run(recipe=Recipe(precision="fp16"))["finished"]
    assert run.notes() == ["1 of 7 optimizer steps were left out: their gradients overflowed fp16"]


def test_gradients_that_always_overflow_end_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precisions, "MOST_SKIPPED", 3)
    workload = Single()
    model = workload.model()
    optimizer = workload.optimizer(model.parameters(), 0.1)
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * math.inf)  # type: ignore[no-untyped-call]
    half = Precision("fp16", CPU)
    for _ in range(3):
        train_window(workload, model, optimizer, [workload.train_data()[:4]], half)
    with pytest.raises(ValueError, match="no finite numbers in fp16, 4 steps in a row; train in bf16"):
        train_window(workload, model, optimizer, [workload.train_data()[:4]], half)
    assert half.skipped == 4


def test_a_torch_without_half_precision_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.amp, "GradScaler")
    with pytest.raises(ValueError, match="computes in fp16 on a GPU only"):
        Precision("fp16", CPU)
    monkeypatch.delattr(torch, "autocast")
    with pytest.raises(ValueError, match="cannot compute in bf16; train in fp32"):
        Precision("bf16", CPU)
    with Precision("fp32", CPU).forward():
        pass


# ---- learning rate


def test_the_rate_falls_to_zero_at_the_last_step() -> None:
    rates = [learning_rate(step, 0.1, 0.4, 2, "linear", 6) for step in range(7)]
    assert rates == pytest.approx([0.1, 0.25, 0.4, 0.3, 0.2, 0.1, 0.0])
    rates = [learning_rate(step, 0.4, 0.4, 0, "cosine", 4) for step in range(5)]
    assert rates == pytest.approx([0.4, 0.2 * (1 + math.sqrt(0.5)), 0.2, 0.2 * (1 - math.sqrt(0.5)), 0.0])
    assert learning_rate(3, 0.1, 0.4, 3, "linear", 3) == 0.4


class Scheduled(Tiny):
    """With a scheduler of its own, that computes each rate from the one before."""

    def scheduler(self, optimizer: torch.optim.Optimizer, steps: int) -> Any:
        assert steps == 7
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def test_a_scheduler_of_the_workload_steps_with_the_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    plain = Schedule.stepped

    def stepped(self: Schedule) -> None:
        rates.append(float(self._optimizer.param_groups[0]["lr"]))
        plain(self)

    monkeypatch.setattr(Schedule, "stepped", stepped)
    Run(tmp_path, Scheduled())(micro_batch=3)
    warm_up = [0.05 / 0.2, 0.125 / 0.2, 1, 1, 1, 1, 1]
    assert rates == pytest.approx([0.2 * 0.5**step * warm_up[step] for step in range(7)])


RECIPES = {
    "clipped": (Tiny, Recipe(clip_norm=0.05)),
    "cosine": (Tiny, Recipe(decay="cosine")),
    "scheduled": (Scheduled, Recipe()),
    "fp16": (Single, Recipe(precision="fp16")),
    "bf16": (Single, Recipe(precision="bf16")),
    "group": (Normalized, Recipe(batch_norm="group")),
    "frozen": (Normalized, Recipe(batch_norm="frozen")),
}


@pytest.mark.parametrize("name", RECIPES)
def test_interrupted_after_any_step_with_a_recipe(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_S", 0.0)
    kind, recipe = RECIPES[name]
    whole = Run(tmp_path / "whole", kind())(recipe=recipe, out_dir=str(tmp_path / "out"))
    for step in (1, 3, 4, 6):
        run = Run(tmp_path / str(step), kind())
        run(recipe=recipe, stop_at=step)
        out = tmp_path / f"out-{step}"
        assert learnt(run(recipe=recipe, resume=True, out_dir=str(out))) == learnt(whole)
        expected = weights_of(tmp_path / "out" / "model.pt")
        torch.testing.assert_close(weights_of(out / "model.pt"), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe(clip_norm=1.0), "longest gradient: none there, 1.0 here"),
        (Recipe(precision="bf16"), 'precision: none there, "bf16" here'),
        (Recipe(batch_norm="group"), 'batch_norm: none there, "group" here'),
        (Recipe(decay="linear"), 'decay: none there, "linear" here; steps: none there, 7 here'),
    ],
)
def test_another_recipe_is_another_training(recipe: Recipe, said: str, tmp_path: Path) -> None:
    run = Run(tmp_path, Normalized())
    run(stop_at=3)
    with pytest.raises(ValueError, match=said):
        run(recipe=recipe, resume=True)


def test_a_falling_rate_belongs_to_its_number_of_steps(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run(stop_at=3, recipe=Recipe(decay="linear"))
    with pytest.raises(ValueError, match="steps: 7 there, 9 here"):
        run(steps=9, resume=True, recipe=Recipe(decay="linear"))


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe(clip_norm=0.0), "longest gradient must be above 0"),
        (Recipe(clip_norm=math.nan), "longest gradient must be a finite number"),
        (Recipe(precision="fp8"), "precision must be one of fp32, bf16, fp16, not 'fp8'"),
        (Recipe(batch_norm="off"), "batch_norm must be one of plain, frozen, group"),
        (Recipe(decay="step"), "decay must be one of constant, linear, cosine"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(recipe: Recipe, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        Run(tmp_path / "checkpoints")(recipe=recipe)
    assert list(tmp_path.iterdir()) == []


# ---- batch normalization


@pytest.mark.parametrize("choice", ["frozen", "group"])
def test_accumulation_is_exact_without_statistics_of_the_batch(choice: str, tmp_path: Path) -> None:
    found = []
    for micro_batch in (1, 3, 8):
        run = Run(tmp_path / str(micro_batch), Normalized())
        run(micro_batch=micro_batch, recipe=Recipe(batch_norm=choice), out_dir=str(tmp_path / str(micro_batch)))
        found.append(weights_of(tmp_path / str(micro_batch) / "model.pt"))
        assert ("1.running_mean" in found[-1]) == (choice == "frozen")
    for weights in found[:2]:
        torch.testing.assert_close(weights, found[2], rtol=1e-6, atol=1e-12)


def test_frozen_statistics_are_those_the_model_begins_with(tmp_path: Path) -> None:
    class Pretrained(Normalized):
        def model(self) -> nn.Module:
            model: Any = super().model()
            model[1].running_mean.fill_(0.5)
            return model  # type: ignore[no-any-return]

    for kind, new in ((Normalized, True), (Pretrained, False)):
        run = Run(tmp_path / kind.__name__, kind())
        run(recipe=Recipe(batch_norm="frozen"), out_dir=str(tmp_path))
        assert float(weights_of(tmp_path / "model.pt")["1.running_mean"][0]) == (0.0 if new else 0.5)
        assert ["normalize nothing" in note for note in run.notes()] == [new]


def test_group_normalization_takes_over_scale_and_shift() -> None:
    model: Any = nn.Sequential(nn.Conv2d(3, 48, 1), nn.BatchNorm2d(48), nn.Sequential(nn.BatchNorm2d(64, affine=False)))
    nn.init.constant_(model[1].weight, 2.0)
    assert Norms(model, "group").found
    assert (model[1].num_groups, model[2][0].num_groups) == (16, 32)
    assert model[1].weight.unique().tolist() == [2.0]
    assert model[1].weight.requires_grad
    assert model[2][0].weight is None


def test_a_model_without_batch_norm_has_nothing_to_change(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run(recipe=Recipe(batch_norm="group"))
    assert run.notes() == ["the model has no batch normalization to change"]


# ---- what must not be kept


def test_weights_that_are_no_numbers_do_not_replace_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of the step before a checkpoint overflows, while its loss is finite."""
    monkeypatch.setattr(training, "CHECKPOINT_S", 0.0)
    workload = Tiny()
    plain, calls = workload.loss, itertools.count(1)

    def loss(model: Any, batch: Any) -> Any:
        total, count = plain(model, batch)
        if next(calls) == 6 and total.requires_grad:  # the last of the second epoch
            total.register_hook(lambda gradient: gradient * math.nan)
        return total, count

    workload.loss = loss  # type: ignore[method-assign]
    run = Run(tmp_path, workload)
    with pytest.raises(LossError, match=r"a weight in 0\.weight is nan after step 6; a lower learning rate"):
        run(micro_batch=8)
    assert run.names() == [".lock", "step-3.pt"]
