"""What one training step asks of a machine: floating-point work, memory traffic, kernels, memory.

Counted from the workload's own model: forward, backward and optimizer run on torch's meta device, which has shapes but
no numbers, so the count takes milliseconds and no memory. Training is fp32.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devices.device import WorkloadSpec
from devices.errors import InputError
from devices.training import WorkloadInfo

if TYPE_CHECKING:
    import torch

_COUNTED_BATCHES = (2, 4)  # two points give the affine function; batch norm in training refuses one sample of 1x1


@dataclass(frozen=True)
class Affine:
    """A quantity that grows by the same amount with every sample of the batch."""

    fixed: float
    per_sample: float

    def at(self, batch_size: int) -> float:
        """The quantity for `batch_size` samples."""
        return self.fixed + self.per_sample * batch_size


@dataclass(frozen=True)
class StepCost:
    """Cost of one micro-batch (forward and backward) and of one optimizer update.

    Attributes:
        flops: Floating-point operations of a micro-batch (a multiply-add counts two); convolutions and products only.
        traffic_bytes: Bytes read and written by a micro-batch if every kernel moved its operands once, without caches.
        activation_bytes: Bytes kept from forward for backward.
        kernels: Kernels launched by a micro-batch.
        update_traffic_bytes: Bytes read and written by an optimizer update.
        update_kernels: Kernels launched by an optimizer update.
        parameter_bytes: Weights and buffers.
        gradient_bytes: Gradients.
        optimizer_bytes: State of the optimizer.
        input_bytes: Bytes of one sample as the model gets it.
    """

    flops: Affine
    traffic_bytes: Affine
    activation_bytes: Affine
    kernels: float
    update_traffic_bytes: float
    update_kernels: float
    parameter_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    input_bytes: float


def count_step(workload: WorkloadSpec) -> StepCost:
    """The cost of a training step of a workload. Counted once, then remembered until the user's file changes.

    Raises:
        InputError: a workload that cannot be loaded, or that does not run without numbers.
    """
    from devices.agent import workloads

    data = workload.data if workloads.is_users(workload.spec) else None  # a named one costs the same on any data
    path = workloads.file_of(workload.spec)
    return _count(workload.spec, json.dumps(dict(workload.args), sort_keys=True), data, path, _stamp(path))


@functools.lru_cache(maxsize=64)
def _count(spec: str, args: str, data: str | None, path: str | None, stamp: tuple[int, int] | None) -> StepCost:
    """`path` and `stamp` only tell one version of the user's file from another."""
    loaded = _load(spec, json.loads(args), data)
    try:
        return count_workload(loaded)
    except Exception as error:  # whatever the workload's own code raises
        raise _uncountable(spec, "cannot be counted on torch's meta device", error) from error


def _stamp(path: str | None) -> tuple[int, int] | None:
    """What changes with a file: time of its last change in nanoseconds, and bytes. None for no file."""
    if path is None or not Path(path).exists():
        return None
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size


def _load(spec: str, args: Mapping[str, Any], data: str | None) -> Any:
    from devices.agent import workloads

    try:
        return workloads.load(spec, dict(args), data)
    except ValueError as error:
        raise InputError(str(error), hint="--workload NAME --workload-arg KEY=VALUE") from error


def _uncountable(spec: str, what: str, error: Exception) -> InputError:
    from devices.agent import workloads

    return InputError(
        f"workload '{spec}' {what}: {workloads.explain(error, workloads.file_of(spec))}",
        hint="an emulated device runs model, loss and optimizer on tensors that have shapes but no numbers",
    )


def workload_info(workload: WorkloadSpec) -> WorkloadInfo:
    """What a workload was made for. Its data are not looked at.

    Raises:
        InputError: a workload that cannot be loaded, or whose optimizer cannot be made.
    """
    import torch

    loaded = _load(workload.spec, workload.args, workload.data)
    try:
        optimizer = loaded.optimizer([torch.nn.Parameter(torch.zeros(1))], loaded.reference_lr)
    except Exception as error:  # whatever the workload's own code raises
        raise _uncountable(workload.spec, "cannot make its optimizer", error) from error
    return WorkloadInfo(int(loaded.reference_batch), float(loaded.reference_lr), type(optimizer).__name__)


def count_workload(workload: Any) -> StepCost:
    """The cost of a training step of any workload object (see `devices.agent.workloads`)."""
    batch_low, batch_high = _COUNTED_BATCHES
    low, high = _count_at(workload, batch_low), _count_at(workload, batch_high)

    def affine(name: str) -> Affine:
        slope = (high[name] - low[name]) / (batch_high - batch_low)
        return Affine(fixed=max(low[name] - slope * batch_low, 0.0), per_sample=slope)

    return StepCost(
        flops=affine("flops"),
        traffic_bytes=affine("traffic_bytes"),
        activation_bytes=affine("activation_bytes"),
        kernels=low["kernels"],
        update_traffic_bytes=low["update_traffic_bytes"],
        update_kernels=low["update_kernels"],
        parameter_bytes=low["parameter_bytes"],
        gradient_bytes=low["gradient_bytes"],
        optimizer_bytes=low["optimizer_bytes"],
        input_bytes=low["input_bytes"],
    )


def _count_at(workload: Any, batch_size: int) -> dict[str, float]:
    """The quantities of `StepCost` for one batch size."""
    import torch
    from torch.utils._pytree import tree_map_only
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = workload.model()
        made = workload.example_input(batch_size)
    model.train()
    batch = tree_map_only(torch.Tensor, lambda t: t.to("meta"), made)
    optimizer = workload.optimizer(list(model.parameters()), 0.1)
    for group in optimizer.param_groups:
        if "foreach" in group:
            group["foreach"] = True  # what torch takes on an accelerator: one kernel for many tensors
    states = [*model.parameters(), *model.buffers()]
    own = {tensor.untyped_storage()._cdata for tensor in states}  # linear layers keep transposed views of their weights
    saved: dict[int, tuple[Any, int]] = {}  # storages are held, so that no address is used twice

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = (storage, storage.nbytes())
        return tensor

    step, update = _Counter(), _Counter()
    flops = FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.convolution_backward: _convolution_backward_flops}
    )
    with flops, _counting(step):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss, count = workload.loss(model, batch)
        (loss / count).backward()
    optimizer.step()  # makes the state; only later updates are all alike
    with _counting(update):
        optimizer.step()
    return {
        "flops": flops.get_total_flops(),
        "traffic_bytes": step.traffic_bytes,
        "activation_bytes": sum(size for _, size in saved.values()),
        "kernels": step.kernels,
        "update_traffic_bytes": update.traffic_bytes,
        "update_kernels": update.kernels,
        "parameter_bytes": sum(t.nbytes for t in states),
        "gradient_bytes": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
        "optimizer_bytes": _tensor_bytes(list(optimizer.state.values())),
        "input_bytes": _tensor_bytes(batch) / batch_size,
    }


def _convolution_backward_flops(
    grad_out: Any,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
    **_: Any,
) -> int:
    """Either gradient takes as much as forward; torch's own formula forgets the groups of a depthwise convolution."""
    from torch.utils.flop_counter import conv_flop_count

    return (int(mask[0]) + int(mask[1])) * conv_flop_count(x, weight, grad_out, transposed=transposed)


@dataclass
class _Counter:
    kernels: int = 0
    traffic_bytes: int = 0


def _tensor_bytes(tree: Any) -> int:
    """Bytes of all tensors in nested containers."""
    import torch
    from torch.utils._pytree import tree_leaves

    return sum(leaf.nbytes for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _counting(counter: _Counter) -> AbstractContextManager[Any]:
    """While entered, every torch operation that is no view counts as one kernel that moves its operands once.

    Operations on the CPU do not count: optimizers keep their step numbers there.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
            if not func.is_view and any(tensor.is_meta for tensor in tensors):
                counter.kernels += 1
                counter.traffic_bytes += _tensor_bytes((args, kwargs)) + _tensor_bytes(result)
            return result

    return Counting()  # type: ignore[no-untyped-call]
