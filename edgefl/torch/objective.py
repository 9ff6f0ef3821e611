"""The training objective in torch: the mean loss of a batch, and the number of right decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgefl.errors import DataError, GraphError
from edgefl.learning.losses import L1, MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss, Weights


def mean_loss(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss over the batch, as the loss divides it.

    outputs  [N, outputs] or [N, outputs, *places]
    targets  labels [N] or [N, *places], or values of the shape of the outputs
    Raises   GraphError if the outputs have no axis after the batch, DataError if the targets do not fit the outputs.
    """
    if outputs.dim() < 2:
        raise GraphError(f"output of shape {tuple(outputs.shape[1:])}; expected one logit per class")
    outputs = _classes_first(loss, outputs)
    loss.check_outputs(outputs.shape[1])
    expected = (len(outputs), *outputs.shape[2:]) if loss.has_labels else tuple(outputs.shape)
    if tuple(targets.shape) != expected:
        raise DataError(f"targets of shape {tuple(targets.shape)}; expected {expected}")
    if loss.has_labels:
        counted = targets[_counts(loss, targets)]
        if not len(counted):
            return outputs.sum() * 0  # torch divides by the number of counted places, which is 0
        if counted.max() >= outputs.shape[1]:
            raise DataError(f"label {int(counted.max())}; expected labels below {outputs.shape[1]}")
    return _TABLE[type(loss)](loss, outputs, targets)


def right(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the number of right decisions.

    For labels the first largest logit decides. For binary targets each output decides at logit 0.
    """
    if loss.has_labels:
        return ((_classes_first(loss, outputs).argmax(1) == targets) & _counts(loss, targets)).sum()
    if loss.decisions(outputs.shape[1]):
        return (~outputs.isnan() & ((outputs > 0) == (targets > 0.5))).sum()
    return torch.zeros((), dtype=torch.int64, device=outputs.device)


def _classes_first(loss: Loss, outputs: Tensor) -> Tensor:
    """Return the outputs with the classes as axis 1."""
    return outputs.movedim(-1, 1) if isinstance(loss, CrossEntropy) and loss.class_axis == -1 else outputs


def _counts(loss: Loss, labels: Tensor) -> Tensor:
    """Return which labels count."""
    return labels != loss.ignore_index if isinstance(loss, CrossEntropy) and labels.dim() > 1 else labels >= 0


def _like(weights: Weights, outputs: Tensor) -> Tensor | None:
    return None if weights is None else torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)


def _cross_entropy(loss: CrossEntropy, outputs: Tensor, y: Tensor) -> Tensor:
    weight = _like(loss.weight, outputs)
    smoothing, ignored = loss.label_smoothing, loss.ignore_index
    return functional.cross_entropy(outputs, y, weight, label_smoothing=smoothing, ignore_index=ignored)


def _binary(loss: BinaryCrossEntropy, outputs: Tensor, y: Tensor) -> Tensor:
    weight = _like(loss.pos_weight, outputs)
    weight = None if weight is None else weight.reshape(-1, *(1,) * (outputs.dim() - 2))  # torch aligns the last axes
    return functional.binary_cross_entropy_with_logits(outputs, y, pos_weight=weight)


_TABLE: dict[type[Loss], Callable[[Any, Tensor, Tensor], Tensor]] = {
    CrossEntropy: _cross_entropy,
    BinaryCrossEntropy: _binary,
    MSE: lambda loss, outputs, y: functional.mse_loss(outputs, y),
    L1: lambda loss, outputs, y: functional.l1_loss(outputs, y),
    Huber: lambda loss, outputs, y: functional.huber_loss(outputs, y, delta=loss.delta),
}
