"""The scores of a model: the mean loss and the right decisions of an evaluation, perplexity, and the intersection over
union of classes. No pass runs here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.learner import Array, Evaluation, Samples
from edgefl.learning.losses import CrossEntropy, Loss, Rows, Targets
from edgefl.models.graph.operations import Shape

PERPLEXITY, MEAN_IOU = "perplexity", "mean_iou"  # names of the scores of places in logs and tables
PLACE_SCORES = (PERPLEXITY, MEAN_IOU)


def place_score(loss: Loss, output: Shape) -> str:
    """Return the name of the score that a model with a label for each place has beside its accuracy, or "".

    Outputs along one axis, such as tokens, have the perplexity. A loss with weights or label smoothing is not the
    logarithm of a perplexity. Outputs along two or more axes, such as pixels, have the mean IoU.
    """
    channels, places = loss.split(output)
    if not isinstance(loss, CrossEntropy) or loss.decisions(channels, math.prod(places)) == 1:
        return ""
    if len(places) > 1:
        return MEAN_IOU
    return PERPLEXITY if loss.weight is None and not loss.label_smoothing else ""


def share_of(loss: Loss, y: Targets, rows: Rows) -> float:
    """Return the factor that makes of a sum of losses the number of rows times their mean. It is 0 where no place of
    these rows counts.
    """
    divisor = loss.divisor(y, rows)
    return rows.size / divisor if divisor else 0.0


def evaluated(samples: Samples, index: NDArray[np.int32], output: Shape, loss_sum: float, correct: int) -> Evaluation:
    """Return the evaluation of these rows with a model of this output.

    Where some places do not count, `correct` is the share of right decisions among the counted places, times all
    places, rounded. So the accuracy is the accuracy of the counted places.
    """
    channels, places = samples.loss.split(output)
    decisions = samples.loss.decisions(channels, math.prod(places))
    counted = samples.loss.counted(samples.y[index]) if samples.loss.has_labels else None
    if counted is not None and counted.any():
        correct = round(correct / int(counted.sum()) * len(index) * decisions)
    return Evaluation(loss_sum, correct, len(index), decisions)


def with_mean_iou(
    found: Evaluation, samples: Samples, index: NDArray[np.int32], output: Shape, passes: Callable[[], Iterable[Array]]
) -> Evaluation:
    """Return the evaluation with the mean IoU, if the outputs are labels of pixels.

    passes  runs the model on these rows in their order, and yields its outputs in parts. Only pixels need it
    """
    if place_score(samples.loss, output) != MEAN_IOU:
        return found
    assert isinstance(samples.loss, CrossEntropy)  # place_score says so
    share = mean_iou(_with_labels(passes(), samples, index, samples.loss.class_axis), samples.loss.ignore_index)
    return replace(found, mean_iou=None if math.isnan(share) else share)


def _with_labels(
    parts: Iterable[Array], samples: Samples, index: NDArray[np.int32], class_axis: int
) -> Iterable[tuple[Array, Array]]:
    """Yield each part of the outputs [N, classes, *places] with the labels of its rows."""
    start = 0
    for part in parts:
        rows = index[start : start + len(part)]
        yield np.moveaxis(part, class_axis, 1), samples.y[rows]
        start += len(part)


def perplexity(mean_loss: float) -> float:
    """Return e to the mean cross-entropy of a token: the number of equally likely tokens that would be as uncertain.

    It is inf where the mean loss is too large for a float.
    """
    return math.exp(mean_loss) if mean_loss < 700 else math.inf


def intersection_over_union(parts: Iterable[tuple[Array, Array]], ignore_index: int = -100) -> list[float]:
    """Return for each class the share of places that both have among the places that either has.

    parts         pairs of logits [N, classes, *places] and labels int32 [N, *places]
    ignore_index  label of the places that do not count
    A class that neither the labels nor the decisions have is NaN.
    """
    both: Array = np.zeros(0, np.int64)
    either: Array = np.zeros(0, np.int64)
    for logits, labels in parts:
        classes, counts = logits.shape[1], labels != ignore_index
        found, asked = logits.argmax(axis=1)[counts], labels[counts]
        right, decided, given = (np.bincount(each, minlength=classes) for each in (found[found == asked], found, asked))
        union = decided + given - right
        both, either = (right, union) if not len(both) else (both + right, either + union)
    with np.errstate(invalid="ignore"):
        return [float(each) for each in both / either]


def mean_iou(parts: Iterable[tuple[Array, Array]], ignore_index: int = -100) -> float:
    """Return the mean of `intersection_over_union` over the classes that occur, or NaN if no class occurs."""
    found = [each for each in intersection_over_union(parts, ignore_index) if not math.isnan(each)]
    return sum(found) / len(found) if found else math.nan
