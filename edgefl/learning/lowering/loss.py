"""The lowering of the loss: the targets of the batch, and the kernel that adds to the sums and writes the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from edgefl.learning.losses import L1, MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
from edgefl.learning.lowering.computed import scaled
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import LOSS, AuxiliarySlot, Slot, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Permute


class Ends(NamedTuple):
    """The ends of the call of a loss: targets, sum of losses, number of right decisions, and the gradient."""

    y: Slot | AuxiliarySlot
    loss: Slot | AuxiliarySlot
    correct: Slot
    gradient: Tensor | None


def loss(recorder: Recorder, of: Loss, outputs: Tensor, gradient: Tensor | None) -> None:
    """Record the loss of these outputs [B, classes] or [B, classes, *places].

    gradient  buffer for its gradient, which may be the outputs themselves. None: no gradient is asked for
    """
    recorder.node = LOSS
    _record(recorder, of, outputs, ends_of(gradient))


def ends_of(gradient: Tensor | None) -> Ends:
    """Return the ends of the loss of the output."""
    return Ends(Slot("y"), Slot("loss"), Slot("correct"), gradient)


def auxiliary_loss(recorder: Recorder, of: Loss, position: int, outputs: Tensor, weight: float) -> Tensor:
    """Record the loss of an auxiliary output. Return its gradient times the weight, in a buffer of its own."""
    recorder.node, gradient = LOSS, recorder.like(outputs)
    ends = Ends(AuxiliarySlot("y", position), AuxiliarySlot("loss", position), Slot("auxiliary_correct"), gradient)
    _record(recorder, of, outputs, ends)
    if weight == 1:
        return gradient
    scaled_gradient = scaled(recorder, gradient, weight)
    recorder.keep(scaled_gradient)  # so it is not narrowed to float16
    return scaled_gradient


def _record(recorder: Recorder, of: Loss, outputs: Tensor, ends: Ends) -> None:
    """Record the loss of outputs of any shape, and the gradient in the shape of the outputs."""
    if len(outputs.shape) == 2 or not isinstance(of, CrossEntropy) or of.class_axis == 1:
        gradient = None if ends.gradient is None else _flat(of, ends.gradient)
        _TABLE[type(of)](recorder, of, _flat(of, outputs), ends._replace(gradient=gradient))
        return
    batch, *places, classes = outputs.shape
    rows = batch, prod(places), classes
    turned = recorder.new((batch, classes, prod(places)))
    recorder.call("transpose", outputs.view(*rows), turned)
    _cross_entropy(recorder, of, turned, ends._replace(gradient=None if ends.gradient is None else turned))
    if ends.gradient is not None:
        recorder.call("transpose", turned, ends.gradient.view(*rows))


def without_last_turn(nodes: tuple[Node, ...], of: Loss) -> tuple[tuple[Node, ...], Loss]:
    """Return the nodes without a last Permute that moves the classes behind the places, and the loss of what is left.

    The loss reads the classes before the places, so that nothing is turned.
    """
    if not isinstance(of, CrossEntropy) or of.class_axis == 1 or len(nodes) < 2:
        return nodes, of
    last, source = nodes[-1], nodes[-2].name
    is_turn = isinstance(last.op, Permute) and last.op.axes in ((1, 2, 0), (2, 1, 0)) and last.inputs == (source,)
    return (nodes[:-1], replace(of, class_axis=1)) if is_turn else (nodes, of)


def _flat(of: Loss, outputs: Tensor) -> Tensor:
    """Return the outputs as the kernels read them: [B, classes, places] where each place has a label, or else a row for
    each example.
    """
    batch, channels, *places = outputs.shape
    if not places:
        return outputs
    count = prod(places)
    return outputs.view(batch, channels, count) if of.has_labels else outputs.view(batch, channels * count)


def _labels(recorder: Recorder, ends: Ends) -> Tensor:
    labels = recorder.new((recorder.scope.batch,), "int32")
    recorder.call("gather_labels", ends.y, Slot("index"), labels)
    return labels


def _targets(recorder: Recorder, outputs: Tensor, ends: Ends) -> Tensor:
    targets = recorder.like(outputs)
    recorder.call("gather_rows", ends.y, Slot("index"), 1.0, 0.0, targets)
    return targets


def _cross_entropy(recorder: Recorder, of: CrossEntropy, outputs: Tensor, ends: Ends) -> None:
    if len(outputs.shape) > 2:
        record_places(recorder, of, outputs, ends)
        return
    weight = None if of.weight is None else Slot("output_weight")
    labels = _labels(recorder, ends)
    if of.weight is None and not of.label_smoothing:
        recorder.call("softmax_xent", outputs, labels, ends.gradient, ends.loss, ends.correct)
        return
    recorder.call("cross_entropy", outputs, labels, weight, of.label_smoothing, ends.gradient, ends.loss, ends.correct)


def record_places(
    recorder: Recorder, of: CrossEntropy, outputs: Tensor, ends: Ends, first: int = 0, place: int = 0
) -> None:
    """Record the loss of outputs [b, classes, places], a part of the batch's mean.

    first, place  first example and first place of the outputs in the batch
    """
    asked = None if of.weight is None else Slot("output_weight"), of.label_smoothing, of.ignore_index
    found = ends.gradient, ends.loss, ends.correct
    recorder.call("place_cross_entropy", outputs, ends.y, Slot("index"), first, place, *asked, *found)


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


def _absolute(recorder: Recorder, of: L1, outputs: Tensor, ends: Ends) -> None:
    recorder.call("absolute_error", outputs, _targets(recorder, outputs, ends), ends.gradient, ends.loss)


def _huber(recorder: Recorder, of: Huber, outputs: Tensor, ends: Ends) -> None:
    recorder.call("huber", outputs, _targets(recorder, outputs, ends), of.delta, ends.gradient, ends.loss)


_TABLE: dict[type[Loss], Callable[[Recorder, Any, Tensor, Ends], None]] = {
    CrossEntropy: _cross_entropy,
    BinaryCrossEntropy: _binary,
    MSE: _squared,
    L1: _absolute,
    Huber: _huber,
}
