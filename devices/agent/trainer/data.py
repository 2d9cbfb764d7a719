"""The order of the training data, and its batches.

An epoch is a permutation of the data, a function of the seed and the epoch's number alone. It is cut into windows of
the effective batch, one for each optimizer step, and those into micro-batches. So the steps see the same samples
whatever the micro-batch, and a training can be taken up at any step.
"""

import hashlib
from typing import Any, Iterable, Iterator, List, Tuple

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset


def length_of(dataset: Any, method: str) -> int:
    """Number of items of a data set.

    Args:
        dataset: What a workload gave.
        method: The name of the method that gave it (`train_data`), for the error.

    Raises:
        ValueError: not a map-style data set, or an empty one.
    """
    kind = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ValueError(
            "{}() gives {}; it must give a map-style data set, one with a length and items by number".format(
                method, "nothing" if dataset is None else "an object of type {}".format(kind)
            )
        )
    length = len(dataset)
    if length == 0:
        raise ValueError("{}() gives a data set without items".format(method))
    return length


def order(length: int, seed: int, epoch: int) -> torch.Tensor:
    """The permutation of range(length) in which an epoch goes through the data: (length,), int64."""
    digest = hashlib.sha256("{}:{}".format(seed, epoch).encode("ascii")).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.randperm(length, generator=generator)


def split(count: int, micro_batch: int) -> List[int]:
    """Sizes of the micro-batches that `count` samples are cut into: as few as can be, full but for the last.

    Where a single sample would be left, the last full one lends it another: batch norm cannot take one sample of one
    pixel. (With a micro-batch of 2 it has none to lend.)
    """
    sizes = [micro_batch] * (count // micro_batch)
    if count % micro_batch:
        sizes.append(count % micro_batch)
    if len(sizes) > 1 and sizes[-1] == 1 and micro_batch > 2:
        sizes[-2:] = [micro_batch - 1, 2]
    return sizes


def windows_per_epoch(length: int, effective_batch: int) -> int:
    """Optimizer steps an epoch; the last takes the samples that are left."""
    return -(-length // effective_batch)


def windows(
    dataset: Any, effective_batch: int, micro_batch: int, seed: int, step: int
) -> Iterator[Tuple[List[int], Iterator[Any]]]:
    """The micro-batches of every optimizer step from `step` (from 0) on, without end.

    Yields:
        The sizes of a step's micro-batches, and an iterator to take exactly as many batches from; it is the same for
        all steps of an epoch. Nothing is fetched before it is taken.
    """
    length = len(dataset)
    epoch, window = divmod(step, windows_per_epoch(length, effective_batch))
    while True:
        left = order(length, seed, epoch)[window * effective_batch :]
        sizes = [split(effective_batch, micro_batch)] * (len(left) // effective_batch)
        if len(left) % effective_batch:
            sizes.append(split(len(left) % effective_batch, micro_batch))
        batches = fetch(dataset, _cut(left, sizes))
        for part in sizes:
            yield part, batches
        epoch, window = epoch + 1, 0


def _cut(indices: torch.Tensor, sizes: Iterable[Iterable[int]]) -> Iterator[torch.Tensor]:
    at = 0
    for part in sizes:
        for size in part:
            yield indices[at : at + size]
            at += size


def endless(dataset: Any, micro_batch: int, seed: int) -> Iterator[Any]:
    """Micro-batches of exactly that size without end, across epochs; larger than the data set, they repeat items."""
    return fetch(dataset, _endless_indices(len(dataset), micro_batch, seed))


def _endless_indices(length: int, micro_batch: int, seed: int) -> Iterator[torch.Tensor]:
    left, epoch = order(length, seed, 0), 1
    while True:
        while len(left) < micro_batch:
            left, epoch = torch.cat((left, order(length, seed, epoch))), epoch + 1
        yield left[:micro_batch]
        left = left[micro_batch:]


def in_order(dataset: Any, micro_batch: int) -> Iterator[Any]:
    """Every item once, in batches of `micro_batch` and a smaller last one."""
    length = len(dataset)
    return fetch(dataset, (torch.arange(at, min(at + micro_batch, length)) for at in range(0, length, micro_batch)))


def synthetic(workload: Any, micro_batch: int) -> Iterator[Any]:
    """The workload's example input without end, where there are no data: the same batch every time."""
    batch = workload.example_input(micro_batch)
    while True:
        yield batch


def fetch(dataset: Any, indices: Iterable[torch.Tensor]) -> Iterator[Any]:
    """The batches of items that `indices` name, each fetched when it is taken.

    Args:
        dataset: Map-style.
        indices: Of each batch, int64, 1-dimensional.

    Returns:
        Batches as the default collate function of torch makes them. Nothing is drawn from torch's global random
        numbers, unless an item does so.
    """
    if type(dataset) is Subset and type(dataset.dataset) is TensorDataset:  # what random_split makes
        part = torch.as_tensor(dataset.indices)
        return fetch(dataset.dataset, (part[index] for index in indices))
    if type(dataset) is TensorDataset:  # at once, not item by item
        tensors = dataset.tensors
        return ([tensor[index] for tensor in tensors] for index in indices)
    generator = torch.Generator()  # without one, every iteration would draw a seed from the global generator
    lists = (index.tolist() for index in indices)
    loader: DataLoader[Any] = DataLoader(dataset, batch_sampler=lists, generator=generator)
    return iter(loader)
