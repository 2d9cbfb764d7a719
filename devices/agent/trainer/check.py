"""One training step of a workload before anything depends on it: what is wrong is said now, with its place."""

from typing import Any, Dict, Tuple

import torch

from ..failures import is_ours
from ..workloads import explain, file_of
from .data import endless
from .loop import judge, place, train_window
from .norms import batch_norms

CHECKED_BATCH = 2  # batch normalization refuses one sample of 1x1


def try_step(spec: str, workload: Any, device: torch.device) -> Tuple[Dict[str, Any], Any]:
    """Make the model, the optimizer and the data of a workload, and train it for a step.

    Returns:
        What `devices.device.WorkloadInfo` needs, and the training data (None: synthetic inputs).

    Raises:
        ValueError: something of it fails; one sentence that names it.
    """
    path = file_of(spec)
    stage = "model()"
    torch.manual_seed(0)
    try:
        model = workload.model().to(device)
        model.train()
        stage = "optimizer(params, lr)"
        optimizer = workload.optimizer(list(model.parameters()), workload.reference_lr)
        stage = "train_data()"
        data = workload.train_data()
        train_samples = None if data is None else len(data)
        stage = "test_data()"
        test = workload.test_data()
        test_samples = 0 if test is None else len(test)
        stage = "the training data" if data is not None else "example_input(batch_size)"
        batch = place(_first_batch(workload, data), device)
        stage = "a training step"
        train_window(workload, model, optimizer, [batch])
        stage = "a test"
        judge(workload, model, [batch if not test_samples else place(_first_batch(workload, test), device)])
    except (Exception, SystemExit) as error:
        why = str(error) if is_ours(error) else explain(error, path)
        raise ValueError("workload '{}' fails in {}: {}".format(spec, stage, why)) from error
    info = {
        "batch": int(workload.reference_batch),
        "learning_rate": float(workload.reference_lr),
        "optimizer": type(optimizer).__name__,
        "train_samples": train_samples,
        "test_samples": test_samples,
        "batch_norm": bool(batch_norms(model)),
    }
    return info, data


def _first_batch(workload: Any, data: Any) -> Any:
    """A small batch, fetched as a burst fetches it."""
    if data is None:
        return workload.example_input(CHECKED_BATCH)
    if len(data) == 0:
        raise ValueError("train_data() is empty")
    return next(endless(data, CHECKED_BATCH, 0))
