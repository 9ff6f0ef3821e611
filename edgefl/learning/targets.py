"""The targets of a data set as a loss takes them, and the loss that targets ask for where nobody names one."""

from __future__ import annotations

import numpy as np

from edgefl.errors import DataError
from edgefl.learning.learner import Samples
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Loss, Targets


def default_loss(y: Targets) -> Loss:
    """Cross-entropy for labels, int32 [N]; of values, binary cross-entropy where all are 0 or 1, else MSE."""
    if y.dtype.kind == "i":
        return CrossEntropy()
    return BinaryCrossEntropy() if ((y == 0) | (y == 1)).all() else MSE()


def as_targets(y: Targets, loss: Loss) -> Targets:
    """Labels [N] as values [N, 1] where the loss has values; else y.

    Raises  DataError for values where the loss has labels.
    """
    if y.dtype.kind == "f" and loss.has_labels:
        raise DataError(f"targets of {y.dtype} and shape {y.shape} with loss={loss}; expected labels, integers [N]")
    return y.astype(np.float32)[:, None] if y.dtype.kind == "i" and not loss.has_labels else y


def with_loss(samples: Samples, loss: Loss) -> Samples:
    """The samples with another loss. Raises DataError if their targets are none for it."""
    return Samples(samples.x, as_targets(samples.y, loss), samples.scale, samples.shift, loss)
