"""The targets of a data set as a loss takes them, and the loss that targets ask for where nobody names one."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from edgefl.errors import DataError
from edgefl.learning.learner import Samples
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Loss, Targets

LARGEST_LABEL = 2**24  # float32 holds whole numbers up to it one by one


def default_loss(y: Targets) -> Loss:
    """Cross-entropy for labels, int32 [N]; of values, binary cross-entropy where all are 0 or 1, else MSE."""
    if y.dtype.kind == "i":
        return CrossEntropy()
    return BinaryCrossEntropy() if ((y == 0) | (y == 1)).all() else MSE()


def as_targets(y: Targets, loss: Loss) -> Targets:
    """Labels [N] as values [N, 1] where the loss has values; whole values [N, 1] from 0, and rows [N, K] of a single 1
    each, as labels where the loss has labels; else y.

    Raises  DataError for other values where the loss has labels.
    """
    if y.dtype.kind == "f" and loss.has_labels:
        if (labels := _as_labels(y)) is not None:
            return labels
        refuse_values(y, loss)
    return y.astype(np.float32)[:, None] if y.dtype.kind == "i" and not loss.has_labels else y


def refuse_values(y: Targets, loss: Loss) -> NoReturn:
    """Raises DataError: these are values, and the loss has labels."""
    raise DataError(f"targets of {y.dtype} and shape {y.shape} with loss={loss}; expected labels, integers [N]")


def _as_labels(y: Targets) -> Targets | None:
    """int32 [N] of values that can be nothing but labels; None: they are not."""
    if y.ndim != 2 or not len(y) or not (y == np.floor(y)).all() or y.min() < 0 or y.max() >= LARGEST_LABEL:
        return None
    if y.shape[1] == 1:
        return y[:, 0].astype(np.int32)
    return y.argmax(1).astype(np.int32) if (y.max(1) == 1).all() and (y.sum(1) == 1).all() else None


def with_loss(samples: Samples, loss: Loss) -> Samples:
    """The samples with another loss. Raises DataError if their targets are none for it."""
    return Samples(samples.x, as_targets(samples.y, loss), samples.scale, samples.shift, loss)
