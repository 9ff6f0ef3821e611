"""Targets of a model whose output has places, such as tokens or pixels: their form, and the axis of the
classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.learning.losses import CrossEntropy, Loss
from edgefl.models.graph.operations import Shape


def have_places(y: Array) -> bool:
    """Return whether each example has a label for each place, or values of a shape with several axes."""
    return y.ndim > (1 if y.dtype.kind == "i" else 2)


def with_class_axis(loss: CrossEntropy, data: DataSet, output: Shape) -> tuple[Loss, tuple[str, ...]]:
    """Return the loss with the axis of the classes at which the labels fit the model's output, and the notes.

    Axis 1 is taken where both axes fit, as torch has it.
    """
    places, last = data.y.shape[1:], replace(loss, class_axis=-1)
    if places != loss.split(output)[1] and places == last.split(output)[1]:
        return last, (*data.notes, "the classes are the last axis of the model's output (class_axis=-1)")
    return loss, data.notes


def fitted(y: Array, output: Shape, loss: Loss) -> Array:
    """Return values [N, *places] as [N, 1, *places] where the output has one channel, and other targets unchanged."""
    is_mask = not loss.has_labels and (1, *y.shape[1:]) == output
    return y[:, np.newaxis] if is_mask else y
