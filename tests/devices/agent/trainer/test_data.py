"""The order of the data, its batches, and the learning rates."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Subset, TensorDataset

from devices.agent.trainer import data
from devices.agent.trainer.schedule import Schedule, learning_rate

from .tiny import Items, Tiny

NUMBERS = torch.arange(23)
KINDS: dict[str, Any] = {
    "tensors": TensorDataset(NUMBERS, -NUMBERS),
    "items": Items(NUMBERS, -NUMBERS),
    "subset": Subset(TensorDataset(NUMBERS.flip(0), -NUMBERS.flip(0)), list(range(22, -1, -1))),
}


def steps(dataset: Any, micro_batch: int, first: int, count: int) -> list[list[int]]:
    """The samples of each step of 5."""
    found = []
    for sizes, batches in itertools.islice(data.windows(dataset, 5, micro_batch, 7, first), count):
        taken = [next(batches) for _ in sizes]
        assert [len(part) for part, _ in taken] == sizes
        assert all(torch.equal(part, -minus) for part, minus in taken)
        found.append(torch.cat([part for part, _ in taken]).tolist())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_does_not_depend_on_the_micro_batch_nor_on_where_it_begins(kind: str) -> None:
    whole = steps(KINDS[kind], 5, 0, 12)
    for micro_batch, first in itertools.product((1, 2, 3, 4, 9), (0, 1, 4, 5, 7)):
        assert steps(KINDS[kind], micro_batch, first, 12 - first) == whole[first:]
    assert [len(step) for step in whole[:6]] == [5, 5, 5, 5, 3, 5]
    for epoch in (whole[:5], whole[5:10]):
        assert sorted(itertools.chain(*epoch)) == NUMBERS.tolist()
    assert whole[0] != whole[5]
    assert whole == steps(KINDS["tensors"], 5, 0, 12)


@given(st.integers(0, 2**70), st.integers(0, 1000), st.integers(1, 50))
def test_an_order_is_a_permutation_that_any_seed_gives_again(seed: int, epoch: int, length: int) -> None:
    order = data.order(length, seed, epoch)
    assert sorted(order.tolist()) == list(range(length))
    assert torch.equal(order, data.order(length, seed, epoch))


@given(st.integers(1, 300), st.integers(1, 64))
def test_windows_are_cut_into_as_few_micro_batches_as_can_be(count: int, micro_batch: int) -> None:
    sizes = data.split(count, micro_batch)
    assert sum(sizes) == count
    assert len(sizes) == -(-count // micro_batch)
    assert max(sizes) <= micro_batch
    assert sizes[:-2] == [micro_batch] * len(sizes[:-2])
    if micro_batch > 2 and count > 1:
        assert min(sizes) > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro_batch", [1, 7, 23, 60])
def test_bursts_get_full_micro_batches_without_end(kind: str, micro_batch: int) -> None:
    batches = [part for part, _ in itertools.islice(data.endless(KINDS[kind], micro_batch, 0), 50)]
    assert {len(part) for part in batches} == {micro_batch}
    stream = torch.cat(batches).tolist()
    for start in range(0, len(stream) - 23, 23):
        assert sorted(stream[start : start + 23]) == NUMBERS.tolist()


def test_without_data_a_burst_trains_on_the_example() -> None:
    points, labels = next(data.synthetic(Tiny(), 4))
    assert (points.shape, labels.shape) == ((4, 3), (4,))


@pytest.mark.parametrize("kind", KINDS)
def test_tests_see_every_item_once(kind: str) -> None:
    parts = [part for part, _ in data.in_order(KINDS[kind], 10)]
    assert [len(part) for part in parts] == [10, 10, 3]
    assert torch.equal(torch.cat(parts), NUMBERS)


@pytest.mark.parametrize("kind", KINDS)
def test_fetching_draws_no_random_numbers(kind: str) -> None:
    before = torch.get_rng_state()
    next(data.endless(KINDS[kind], 4, 0))
    assert torch.equal(torch.get_rng_state(), before)


class Stream(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter([1, 2])


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (None, r"train_data\(\) gives nothing; it must give a map-style"),
        (Stream(), "object of type Stream; it must give a map-style"),
        (iter([1]), "map-style"),
        ([], "without items"),
    ],
)
def test_what_is_no_data_set_is_refused(dataset: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        data.length_of(dataset, "train_data")


def test_the_rate_grows_linearly_and_stays() -> None:
    rates = [learning_rate(step, 0.1, 0.5, 4) for step in range(6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.5])
    assert learning_rate(0, 0.1, 0.5, 0) == 0.5


def test_groups_with_rates_of_their_own_keep_their_ratio() -> None:
    one, other = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    groups: list[dict[str, Any]] = [{"params": [one]}, {"params": [other], "lr": 0.05}]
    optimizer = torch.optim.SGD(groups, lr=0.5)
    schedule = Schedule(optimizer, 0.1, 0.5, 4)
    assert schedule.set(2) == pytest.approx(0.3)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.3, 0.03])
    schedule.set(9)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.05]


def test_a_rate_held_in_a_tensor_is_set_in_place() -> None:
    rate = torch.tensor(0.5)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], lr=rate)
    assert Schedule(optimizer, 0.1, 0.5, 4).set(2) == pytest.approx(0.3)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.3)
