"""Workloads: what is trained, named ones (`--workload NAME`) and the user's own (`--workload FILE.py:FACTORY`).

A workload is any object with

- ``model()``: a new torch module on the default device;
- ``loss(model, batch)``: (sum of the losses over the batch as a tensor, number of terms in it: samples, or tokens);
- ``optimizer(params, lr)``: a new torch optimizer;
- ``train_data()``, ``test_data()``: map-style datasets whose collated items are batches; ``test_data`` may give None;
- ``example_input(batch_size)``: one synthetic batch, as the collated data would give it;
- ``reference_batch`` and ``reference_lr``: the effective batch and the learning rate that belong together;
- optionally ``evaluate(model, batch)``: (number of correct terms, number of terms);
- optionally ``scheduler(optimizer, steps)``: a learning rate scheduler of torch, which goes on with every optimizer
  step of a training of `steps`.

A training that is resumed goes on bit for bit where all random numbers come from the global generators of torch,
`random` and numpy: their states are in the checkpoint, those of a generator of the data set's own are not.

Errors are ValueError, in words for the user: this code also runs on the board, without the host's packages.
"""

import importlib
from typing import Any, Dict, Optional

from ._user import call_factory, check_workload, explain, file_of, is_users, load_factory

__all__ = ["NAMES", "explain", "file_of", "is_users", "load"]

# Each is a module of this package with a factory of the same name, written with underscores.
NAMES = ("resnet18", "mobilenetv2", "digits-cnn", "char-transformer")


def load(spec: str, args: Optional[Dict[str, Any]] = None, data: Optional[str] = None) -> Any:
    """Make a workload.

    Args:
        spec: A name of `NAMES`, `FILE.py:FACTORY` (a path) or `MODULE:FACTORY` (importable on this machine).
        args: Keyword arguments of its factory.
        data: A path on this machine, or None; handed to the factory as `data`.

    Raises:
        ValueError: an unknown name, file, module, factory or argument, a value the workload refuses, or an object
            that is no workload.
    """
    args = dict(args or {})
    if is_users(spec):
        factory = load_factory(spec)
        return check_workload(spec, call_factory(spec, factory, args, data, users=True))
    if spec not in NAMES:
        raise ValueError(
            "no workload is named '{}'; there are: {}; one of your own is written FILE.py:FACTORY or "
            "MODULE:FACTORY".format(spec, ", ".join(NAMES))
        )
    name = spec.replace("-", "_")
    factory = getattr(importlib.import_module("." + name, __name__), name)
    return call_factory(spec, factory, args, data, users=False)
