"""Batch normalization under accumulation: its statistics are those of a micro-batch, unless that is changed."""

import math
from typing import Any, List

from torch import nn

from .state import CHOICES

BatchNorm = nn.modules.batchnorm._BatchNorm
MOST_GROUPS = 32  # Wu and He, 2018, arXiv:1803.08494, section 4
PLAIN, FROZEN, GROUP = CHOICES["batch_norm"]


class Norms:
    """The batch normalization of a new model.

    Args:
        model: On its device, in training mode; changed where `choice` is `group`.
        choice: `plain`: as the model has it. `frozen`: normalized by the running statistics that the model begins with,
            which are not updated. `group`: replaced by group normalization, which looks at one sample at a time, so
            that accumulation is exact.

    Attributes:
        found: Whether the model had any.
        new: Whether their running statistics are those that a layer is made with.
    """

    def __init__(self, model: nn.Module, choice: str) -> None:
        there = batch_norms(model)
        self.found = bool(there)
        self.new = all(norm.running_mean is None or not bool(norm.running_mean.any()) for norm in there)
        self._choice = choice
        if choice == GROUP:
            _replace(model)
        self._norms = [norm for norm in batch_norms(model) if norm.training and norm.track_running_stats]
        if choice == FROZEN:
            self._set(training=False)

    def skip(self) -> None:
        """Use the running statistics, for the next micro-batch alone."""
        self._set(training=False)

    def go_on(self) -> None:
        """As the choice says again, after `skip` or an evaluation."""
        self._set(training=self._choice != FROZEN)

    def _set(self, *, training: bool) -> None:
        for norm in self._norms:
            norm.train(training)


def batch_norms(model: nn.Module) -> List[Any]:
    """The layers of a model that normalize over the batch."""
    return [module for module in model.modules() if isinstance(module, BatchNorm)]


def _replace(model: nn.Module) -> None:
    for name, child in model.named_children():
        if isinstance(child, BatchNorm):
            setattr(model, name, _group_norm(child))
        else:
            _replace(child)


def _group_norm(norm: Any) -> nn.Module:
    """Group normalization with the scale and shift of a batch normalization."""
    channels = norm.num_features
    groups = math.gcd(channels, MOST_GROUPS)
    if groups == channels:  # one channel a group would leave nothing of a vector of features
        groups = max(groups // 2, 1)
    found = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        found.load_state_dict({"weight": norm.weight.detach(), "bias": norm.bias.detach()})
        found.to(norm.weight.device, norm.weight.dtype)
    return found
