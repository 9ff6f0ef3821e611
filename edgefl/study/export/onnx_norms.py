"""Normalisations in ONNX's operators: rows of the table in onnx_nodes.py."""

from __future__ import annotations

import numpy as np

from edgefl.models.graph.operations import BatchNorm, GroupNorm, LayerNorm
from edgefl.study.export.onnx_file import Writer


def layer_norm(op: LayerNorm, inputs: list[str], to: Writer) -> str:
    axis, rank = -len(op.normalized_shape), len(to.input_shape) + 1
    if rank == len(op.normalized_shape) + 1:
        return to.node("LayerNormalization", *inputs, *to.parameters(), axis=axis, epsilon=op.eps)
    channels_last = to.node("Transpose", *inputs, perm=[0, *range(2, rank), 1])
    normed = to.node("LayerNormalization", channels_last, *to.parameters(), axis=axis, epsilon=op.eps)
    return to.node("Transpose", normed, perm=[0, rank - 1, *range(1, rank - 1)])


def batch_norm(op: BatchNorm, inputs: list[str], to: Writer) -> str:
    if op.track_running_stats:
        return to.node("BatchNormalization", *inputs, *to.parameters(), epsilon=op.eps)
    shape, others = (op.num_features, *(1 for _ in to.input_shape[1:])), [0, *range(2, len(to.input_shape) + 1)]
    centred = to.node("Sub", *inputs, to.node("ReduceMean", *inputs, axes=others))
    variance = to.node("ReduceMean", to.node("Mul", centred, centred), axes=others)
    deviation = to.node("Sqrt", to.node("Add", variance, to.constant("eps", op.eps)))
    scaled = to.node("Mul", to.node("Div", centred, deviation), to.parameter("weight", shape))
    return to.node("Add", scaled, to.parameter("bias", shape))


def group_norm(op: GroupNorm, inputs: list[str], to: Writer) -> str:
    """Normalise each group as an instance of one channel, then apply each channel's weight and bias."""
    groups = to.node("Reshape", *inputs, to.constant("groups", [0, op.num_groups, -1]))
    ones, zeros = (to.constant(name, np.full(op.num_groups, float(value))) for name, value in (("one", 1), ("zero", 0)))
    normed = to.node("InstanceNormalization", groups, ones, zeros, epsilon=op.eps)
    planes = to.node("Reshape", normed, to.node("Shape", *inputs))
    shape = (op.num_channels, *(1 for _ in to.input_shape[1:]))
    scaled = to.node("Mul", planes, to.parameter("weight", shape))
    return to.node("Add", scaled, to.parameter("bias", shape))
