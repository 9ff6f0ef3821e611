"""The targets of a data set in the form that a loss takes, and the default loss of targets."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import DataError
from edgefl.learning.learner import Samples
from edgefl.learning.losses import CROSS_ENTROPY, MSE, BinaryCrossEntropy, CrossEntropy, Loss, Targets
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Shape

LARGEST_LABEL = 2**24  # float32 holds every whole number up to this one


def default_loss(y: Targets) -> Loss:
    """Return cross-entropy for labels, int32 [N]. Values get binary cross-entropy if all are 0 or 1, and
    MSE otherwise.
    """
    if y.dtype.kind == "i":
        return CrossEntropy()
    return BinaryCrossEntropy() if ((y == 0) | (y == 1)).all() else MSE()


def blank_targets(count: int, graph: Graph, loss: Loss = CROSS_ENTROPY) -> Targets:
    """Return targets of the value 0 for `count` examples and this loss of a model's output."""
    return _blank(count, graph.output_shape, loss)


def blank_samples(x: NDArray[Any], graph: Graph | None) -> Samples:
    """Return samples whose targets are 0 for the output and for each auxiliary output, or labels without a graph."""
    if graph is None:
        return Samples(x, np.zeros(len(x), np.int32))
    further = tuple(_blank(len(x), graph.shapes[each.result], CROSS_ENTROPY) for each in graph.auxiliary)
    return Samples(x, blank_targets(len(x), graph), auxiliary=further)


def _blank(count: int, output: Shape, loss: Loss) -> Targets:
    places = loss.split(output)[1]
    if loss.has_labels:
        return np.zeros((count, *(places if prod(places) > 1 else ())), np.int32)
    return np.zeros((count, *output), np.float32)


def as_targets(y: Targets, loss: Loss) -> Targets:
    """Return the targets in the form that the loss takes.

    If the loss has values, labels [N] become values [N, 1]. If the loss has labels, whole values [N, 1] from 0, and
    rows [N, K] with a single 1, become labels. Other targets are returned unchanged.

    Raises  DataError for other values where the loss has labels
    """
    if y.dtype.kind == "f" and loss.has_labels:
        if (labels := _as_labels(y)) is not None:
            return labels
        refuse_values(y, loss)
    if y.dtype.kind != "i" or loss.has_labels:
        return y
    return y.astype(np.float32)[:, None] if y.ndim == 1 else y.astype(np.float32)


def refuse_values(y: Targets, loss: Loss) -> NoReturn:
    """Raise DataError, because these are values and the loss has labels."""
    raise DataError(f"targets of {y.dtype} and shape {y.shape} with loss={loss}; expected labels, integers [N]")


def _as_labels(y: Targets) -> Targets | None:
    """Return int32 [N] for values that can only be labels, or None for other values."""
    if y.ndim != 2 or not len(y) or not (y == np.floor(y)).all() or y.min() < 0 or y.max() >= LARGEST_LABEL:
        return None
    if y.shape[1] == 1:
        return y[:, 0].astype(np.int32)
    return y.argmax(1).astype(np.int32) if (y.max(1) == 1).all() and (y.sum(1) == 1).all() else None


def with_loss(samples: Samples, loss: Loss) -> Samples:
    """Return the samples with another loss. Raises DataError if their targets do not fit the loss."""
    further = tuple(as_targets(each, loss) for each in samples.auxiliary)
    return Samples(samples.x, as_targets(samples.y, loss), samples.scale, samples.shift, loss, further)
