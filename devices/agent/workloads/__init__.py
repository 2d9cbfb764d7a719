"""Named workloads: what `--workload NAME` trains when the user brings no code of their own.

A workload is any object with

- ``model()``: a new torch module on the default device;
- ``loss(model, batch)``: (sum of the losses over the batch as a tensor, number of samples);
- ``optimizer(params, lr)``: a new torch optimizer;
- ``train_data()``, ``test_data()``: map-style datasets whose collated items are batches; ``test_data`` may give None;
- ``example_input(batch_size)``: one synthetic batch, as the collated data would give it;
- ``reference_batch`` and ``reference_lr``: the effective batch and the learning rate that belong together;
- optionally ``evaluate(model, batch)``: (number of correct samples, number of samples).

Errors are ValueError, in words for the user: this code also runs on the board, without the host's packages.
"""

import importlib
import inspect
from typing import Any, Dict, Optional

NAMES = ("resnet18",)  # each a module of this package with a factory of the same name


def load(name: str, args: Optional[Dict[str, Any]] = None, data: Optional[str] = None) -> Any:
    """Make the workload `name` with the keyword arguments `args`; `data` is a path on this machine, or None.

    Raises:
        ValueError: unknown name or argument, or a value the workload refuses.
    """
    if name not in NAMES:
        raise ValueError("no workload is named '{}'; there are: {}".format(name, ", ".join(NAMES)))
    factory = getattr(importlib.import_module("." + name, __name__), name)
    args = dict(args or {})
    known = [key for key in inspect.signature(factory).parameters if key != "data"]
    unknown = sorted(set(args) - set(known))
    if unknown:
        raise ValueError(
            "workload '{}' takes no argument '{}'; it takes: {}".format(name, "', '".join(unknown), ", ".join(known))
        )
    return factory(data=data, **args)
