"""One optimizer step, whatever the micro-batches: it is the full batch's."""

from __future__ import annotations

import collections
import copy
import itertools
from typing import Any

import pytest
import torch
from torch import nn

from devices.agent.trainer.data import windows
from devices.agent.trainer.loop import LossError, judge, place, synchronize, train_window

from .tiny import CPU, Tiny, Tokens

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda params, lr: torch.optim.SGD(params, lr=lr),
    "momentum": lambda params, lr: torch.optim.SGD(params, lr=lr, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda params, lr: torch.optim.AdamW(params, lr=lr),
}


def weights_after(workload: Any, micro_batch: int, steps: int = 7) -> tuple[torch.Tensor, list[float]]:
    """All weights after some steps of 12 samples (5 windows an epoch, the last of 2), and the losses on the way."""
    torch.manual_seed(0)
    model = workload.model()
    optimizer = workload.optimizer(model.parameters(), 0.05)
    losses = []
    for sizes, batches in itertools.islice(windows(workload.train_data(), 12, micro_batch, 0, 0), steps):
        total, count = train_window(workload, model, optimizer, itertools.islice(batches, len(sizes)))
        losses.append(total / count)
        assert all(p.grad is None for p in model.parameters())
    return nn.utils.parameters_to_vector(model.parameters()).detach(), losses


@pytest.mark.parametrize("kind", [Tiny, Tokens])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("micro_batch", [1, 5, 7])
def test_accumulated_steps_are_those_of_the_full_batch(kind: Any, optimizer: str, micro_batch: int) -> None:
    workload = kind(train=50)
    workload.make = OPTIMIZERS[optimizer]
    full, full_losses = weights_after(workload, 12)
    accumulated, losses = weights_after(workload, micro_batch)
    torch.testing.assert_close(accumulated, full, rtol=1e-6, atol=1e-12)
    assert losses == pytest.approx(full_losses, rel=1e-9)


def test_the_gradient_is_that_of_the_mean_of_all_terms() -> None:
    workload = Tokens(train=9)
    torch.manual_seed(0)
    model = workload.model()
    reference = copy.deepcopy(model)
    everything = workload.train_data()[:]
    loss, count = workload.loss(reference, everything)
    (loss / count).backward()
    workload.make = OPTIMIZERS["sgd"]
    parts = zip(*(tensor.split(4) for tensor in everything), strict=True)
    total, terms = train_window(workload, model, workload.optimizer(model.parameters(), 1.0), parts)
    assert total == pytest.approx(loss.item())
    assert terms == count.item()
    for before, after in zip(reference.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(before - after, before.grad, rtol=1e-6, atol=1e-12)


class Returns(Tiny):
    """Its loss and its evaluation return what a function makes of the right answer."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def loss(self, model: nn.Module, batch: Any) -> Any:
        return self.change(*super().loss(model, batch))

    def evaluate(self, model: nn.Module, batch: Any) -> Any:
        return self.change(*super().evaluate(model, batch))


def step(workload: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = workload.model()
    before = copy.deepcopy(model.state_dict())
    try:
        train_window(workload, model, workload.optimizer(model.parameters(), 0.1), [workload.example_input(4)])
    except ValueError:
        assert all(p.grad is None for p in model.parameters())
        torch.testing.assert_close(model.state_dict(), before)
        raise
    return model


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda loss, count: loss, "returned a tensor of shape"),
        (lambda loss, count: None, "returned None; it must return a pair"),
        (lambda loss, count: (loss, count, 1), "returned .*, 4, 1.*pair"),
        (lambda loss, count: (loss.item(), count), "first; it must return a pair"),
        (lambda loss, count: (loss.expand(4), count), r"sum of shape \(4,\).*reduction='sum'"),
        (lambda loss, count: (loss.detach(), count), "without gradient"),
        (lambda loss, count: (loss, 0), "returned 0 as the number of terms.*>= 1"),
        (lambda loss, count: (loss, 2.5), r"returned 2\.5 as the number"),
        (lambda loss, count: (loss, "4"), "an object of type str as the number"),
        (lambda loss, count: (loss, True), "True as the number"),
        (lambda loss, count: (loss, torch.ones(2)), r"a tensor of shape \(2,\) as the number"),
    ],
)
def test_a_loss_that_breaks_its_contract_is_named_in_a_sentence(change: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        step(Returns(change))
    assert type(caught.value) is ValueError
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [4.0, torch.tensor(4), torch.tensor(4.0)])
def test_counts_may_be_tensors_and_whole_floats(count: Any) -> None:
    step(Returns(lambda loss, _: (loss, count)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_does_not_reach_the_weights(value: float) -> None:
    with pytest.raises(LossError, match=f"the loss is {value}"):
        step(Returns(lambda loss, count: (loss * value, count)))


def test_a_window_without_micro_batches_is_refused() -> None:
    workload = Tiny()
    model = workload.model()
    with pytest.raises(ValueError, match="at least one"):
        train_window(workload, model, workload.optimizer(model.parameters(), 0.1), [])


def test_parameters_without_gradient_stay() -> None:
    workload = Tiny()
    model = workload.model()
    frozen, *_ = model.parameters()
    frozen.requires_grad_(False)
    before = frozen.clone()
    train_window(workload, model, workload.optimizer(model.parameters(), 0.1), [workload.example_input(4)])
    assert torch.equal(frozen, before)


def test_judging_counts_terms_in_evaluation_mode() -> None:
    workload = Tiny(dropout=0.5)
    torch.manual_seed(0)
    model = workload.model()
    points, labels = workload.train_data()[:]
    accuracy, loss = judge(workload, model, zip(points.split(7), labels.split(7), strict=True))
    assert model.training
    model.eval()
    assert accuracy == (model(points).argmax(1) == labels).double().mean()
    assert loss == pytest.approx(nn.functional.cross_entropy(model(points), labels).item())


def test_an_evaluation_that_breaks_its_contract_is_named() -> None:
    workload = Returns(lambda value, count: (value, count) if isinstance(value, torch.Tensor) else value / count)
    with pytest.raises(ValueError, match=r"evaluate\(model, batch\) returned .*; it must return a pair"):
        judge(workload, workload.model(), [workload.example_input(4)])


def test_batches_are_placed_through_their_nesting() -> None:
    point = collections.namedtuple("point", "x y")
    meta = torch.device("meta")
    placed = place({"a": [torch.ones(2), "text"], "b": (point(torch.ones(1), 3), None)}, meta)
    assert placed["a"][0].device == placed["b"][0].x.device == meta
    assert placed["a"][1:] == ["text"]
    assert isinstance(placed["b"], tuple)
    assert placed["b"][0].y == 3
    synchronize(CPU)
    synchronize(meta)
