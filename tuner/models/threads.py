"""How many threads the models may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """While entered, torch computes in one thread.

    The models are so small that threads only wait for each other (five times slower beside another busy process), and
    sums in another order would make a study depend on the number of cores.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
