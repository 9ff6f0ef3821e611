"""The lowering of the loss: the targets of the batch, and the kernel that adds to the sums and writes the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from edgefl.errors import GraphError
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
from edgefl.learning.lowering.computed import scaled
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import LOSS, AuxiliarySlot, Slot, Tensor


class Ends(NamedTuple):
    """The ends of the call of a loss: targets, sum of losses, number of right decisions, and the gradient."""

    y: Slot | AuxiliarySlot
    loss: Slot | AuxiliarySlot
    correct: Slot
    gradient: Tensor | None


def loss(recorder: Recorder, of: Loss, outputs: Tensor, has_gradient: bool) -> None:
    """Record the loss of these outputs [B, outputs]. If a gradient is asked for, it overwrites the outputs.

    Raises  GraphError if the outputs are not a vector for each example
    """
    if len(outputs.shape) != 2:
        raise GraphError(f"output of shape {outputs.shape[1:]}; expected one logit per class")
    recorder.node = LOSS
    _TABLE[type(of)](
        recorder, of, outputs, Ends(Slot("y"), Slot("loss"), Slot("correct"), outputs if has_gradient else None)
    )


def auxiliary_loss(recorder: Recorder, of: Loss, position: int, outputs: Tensor, weight: float) -> Tensor:
    """Record the loss of an auxiliary output. Return its gradient times the weight, in a buffer of its own."""
    if len(outputs.shape) != 2:
        raise GraphError(f"auxiliary output of shape {outputs.shape[1:]}; expected one logit per class")
    recorder.node, gradient = LOSS, recorder.like(outputs)
    ends = Ends(AuxiliarySlot("y", position), AuxiliarySlot("loss", position), Slot("auxiliary_correct"), gradient)
    _TABLE[type(of)](recorder, of, outputs, ends)
    if weight == 1:
        return gradient
    scaled_gradient = scaled(recorder, gradient, weight)
    recorder.keep(scaled_gradient)  # so it is not narrowed to float16
    return scaled_gradient


def _labels(recorder: Recorder, ends: Ends) -> Tensor:
    labels = recorder.new((recorder.scope.batch,), "int32")
    recorder.call("gather_labels", ends.y, Slot("index"), labels)
    return labels


def _targets(recorder: Recorder, outputs: Tensor, ends: Ends) -> Tensor:
    targets = recorder.like(outputs)
    recorder.call("gather_rows", ends.y, Slot("index"), 1.0, 0.0, targets)
    return targets


def _cross_entropy(recorder: Recorder, of: CrossEntropy, outputs: Tensor, ends: Ends) -> None:
    labels = _labels(recorder, ends)
    if of == CrossEntropy():
        recorder.call("softmax_xent", outputs, labels, ends.gradient, ends.loss, ends.correct)
        return
    weight = None if of.weight is None else Slot("output_weight")
    recorder.call("cross_entropy", outputs, labels, weight, of.label_smoothing, ends.gradient, ends.loss, ends.correct)


def _binary(recorder: Recorder, of: BinaryCrossEntropy, outputs: Tensor, ends: Ends) -> None:
    weight = None if of.pos_weight is None else Slot("output_weight")
    recorder.call(
        "binary_cross_entropy",
        outputs,
        _targets(recorder, outputs, ends),
        weight,
        ends.gradient,
        ends.loss,
        ends.correct,
    )


def _squared(recorder: Recorder, of: MSE, outputs: Tensor, ends: Ends) -> None:
    recorder.call("squared_error", outputs, _targets(recorder, outputs, ends), ends.gradient, ends.loss)


def _huber(recorder: Recorder, of: Huber, outputs: Tensor, ends: Ends) -> None:
    recorder.call("huber", outputs, _targets(recorder, outputs, ends), of.delta, ends.gradient, ends.loss)


_TABLE: dict[type[Loss], Callable[[Recorder, Any, Tensor, Ends], None]] = {
    CrossEntropy: _cross_entropy,
    BinaryCrossEntropy: _binary,
    MSE: _squared,
    Huber: _huber,
}
