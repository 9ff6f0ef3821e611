"""The lowering of group normalisation of images that lie side by side (batch_layout.py), with or without ReLU."""

from __future__ import annotations

from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Tensor, TrainedBlock
from edgefl.models.graph import Node
from edgefl.models.graph.operations import GroupNorm


def forward(recorder: Recorder, norm: Node, x: Tensor, y: Tensor, relu: bool) -> tuple[Tensor, Tensor]:
    """Record y. Return the mean and the inverse deviation of every image and group."""
    op = norm.op
    assert isinstance(op, GroupNorm)
    mean, inv_std = (recorder.new((recorder.scope.batch // x.lanes, op.num_groups, x.lanes)) for _ in range(2))
    weight, bias = recorder.param(norm, "weight"), recorder.param(norm, "bias")
    outputs, settings = (y.planes, mean, inv_std), (op.num_groups, relu, op.eps)
    recorder.call("groupnorm_lanes_forward", x.planes, weight, bias, *outputs, *settings)
    return mean, inv_std


def backward(
    recorder: Recorder,
    norm: Node,
    dy: Tensor,
    saved: tuple[Tensor, Tensor, Tensor],
    dx: Tensor,
    gradients: tuple[TrainedBlock, TrainedBlock],
    relu: bool,
) -> None:
    """Record dx, and the gradients of weight and bias where they are trained.

    saved  x, mean and inverse deviation
    """
    assert isinstance(norm.op, GroupNorm)
    weight, bias = recorder.param(norm, "weight"), recorder.param(norm, "bias")
    x, mean, inv_std = saved
    outputs = (None if is_empty(block.rows) else block.values for block in gradients)
    read, settings = (dy.planes, x.planes, weight, bias, mean, inv_std), (norm.op.num_groups, relu)
    recorder.call("groupnorm_lanes_backward", *read, dx.planes, *outputs, *settings)
