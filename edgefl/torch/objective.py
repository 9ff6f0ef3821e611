"""The training objective in torch: the mean loss of a batch, and the number of right decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgefl.errors import DataError, GraphError
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss, Weights


def mean_loss(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss over the batch, as the loss divides it.

    outputs  [N, outputs]
    targets  labels [N], or values [N, outputs]
    Raises   GraphError if the outputs are not one vector for each sample, DataError if the targets do not fit the
             outputs.
    """
    if outputs.dim() != 2:
        raise GraphError(f"output of shape {tuple(outputs.shape[1:])}; expected one logit per class")
    loss.check_outputs(outputs.shape[1])
    if loss.has_labels and targets.max() >= outputs.shape[1]:
        raise DataError(f"label {int(targets.max())}; expected labels below {outputs.shape[1]}")
    if not loss.has_labels and targets.shape != outputs.shape:
        raise DataError(f"targets of shape {tuple(targets.shape)}; expected {tuple(outputs.shape)}")
    return _TABLE[type(loss)](loss, outputs, targets)


def right(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the number of right decisions.

    For labels the first largest logit decides. For binary targets each output decides at logit 0.
    """
    if loss.has_labels:
        return (outputs.argmax(1) == targets).sum()
    if loss.decisions(outputs.shape[1]):
        return (~outputs.isnan() & ((outputs > 0) == (targets > 0.5))).sum()
    return torch.zeros((), dtype=torch.int64, device=outputs.device)


def _like(weights: Weights, outputs: Tensor) -> Tensor | None:
    return None if weights is None else torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)


def _cross_entropy(loss: CrossEntropy, outputs: Tensor, y: Tensor) -> Tensor:
    weight = _like(loss.weight, outputs)
    return functional.cross_entropy(outputs, y, weight, label_smoothing=loss.label_smoothing)


def _binary(loss: BinaryCrossEntropy, outputs: Tensor, y: Tensor) -> Tensor:
    weight = _like(loss.pos_weight, outputs)
    return functional.binary_cross_entropy_with_logits(outputs, y, pos_weight=weight)


_TABLE: dict[type[Loss], Callable[[Any, Tensor, Tensor], Tensor]] = {
    CrossEntropy: _cross_entropy,
    BinaryCrossEntropy: _binary,
    MSE: lambda loss, outputs, y: functional.mse_loss(outputs, y),
    Huber: lambda loss, outputs, y: functional.huber_loss(outputs, y, delta=loss.delta),
}
