"""The lowering of the loss: the targets of the batch, and the kernel that adds to the sums and writes the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgefl.errors import GraphError
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import LOSS, Slot, Tensor

SUMS = (Slot("loss"), Slot("correct"))


def loss(recorder: Recorder, of: Loss, outputs: Tensor, has_gradient: bool) -> None:
    """Record the loss of these outputs [B, outputs]. If a gradient is asked for, it overwrites the outputs.

    Raises  GraphError if the outputs are not a vector for each example
    """
    if len(outputs.shape) != 2:
        raise GraphError(f"output of shape {outputs.shape[1:]}; expected one logit per class")
    recorder.node = LOSS
    _TABLE[type(of)](recorder, of, outputs, outputs if has_gradient else None)


def _labels(recorder: Recorder) -> Tensor:
    labels = recorder.new((recorder.scope.batch,), "int32")
    recorder.call("gather_labels", Slot("y"), Slot("index"), labels)
    return labels


def _targets(recorder: Recorder, outputs: Tensor) -> Tensor:
    targets = recorder.like(outputs)
    recorder.call("gather_rows", Slot("y"), Slot("index"), 1.0, 0.0, targets)
    return targets


def _cross_entropy(recorder: Recorder, of: CrossEntropy, outputs: Tensor, gradient: Tensor | None) -> None:
    labels = _labels(recorder)
    if of == CrossEntropy():
        recorder.call("softmax_xent", outputs, labels, gradient, *SUMS)
        return
    weight = None if of.weight is None else Slot("output_weight")
    recorder.call("cross_entropy", outputs, labels, weight, of.label_smoothing, gradient, *SUMS)


def _binary(recorder: Recorder, of: BinaryCrossEntropy, outputs: Tensor, gradient: Tensor | None) -> None:
    weight = None if of.pos_weight is None else Slot("output_weight")
    recorder.call("binary_cross_entropy", outputs, _targets(recorder, outputs), weight, gradient, *SUMS)


def _squared(recorder: Recorder, of: MSE, outputs: Tensor, gradient: Tensor | None) -> None:
    recorder.call("squared_error", outputs, _targets(recorder, outputs), gradient, Slot("loss"))


def _huber(recorder: Recorder, of: Huber, outputs: Tensor, gradient: Tensor | None) -> None:
    recorder.call("huber", outputs, _targets(recorder, outputs), of.delta, gradient, Slot("loss"))


_TABLE: dict[type[Loss], Callable[[Recorder, Any, Tensor, Tensor | None], None]] = {
    CrossEntropy: _cross_entropy,
    BinaryCrossEntropy: _binary,
    MSE: _squared,
    Huber: _huber,
}
