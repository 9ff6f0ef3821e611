"""A model as ONNX: opset 17, a free batch, the weights inside. It is written without torch. onnx_file.py makes the
file.

Every operation has one function in the table NODES, which writes it in ONNX's operators. A new operation needs one more
function. Operations of sequences are in onnx_sequences.py. Results are named "NODE:0" and so on, after the graph's
nodes, and parameters keep their names. Inputs are what the model is trained on, so samples must be scaled as in
training. Outputs are logits, without a softmax. The operators are described in onnx/docs/Operators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph import Model
from edgefl.models.graph.cuts import before
from edgefl.models.graph.model_files import class_metadata
from edgefl.models.graph.operations import (
    ELU,
    GELU,
    GRU,
    LSTM,
    RNN,
    AdapterSum,
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    Add,
    AddParameter,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    CircularPad2d,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Elementwise,
    Embedding,
    Flatten,
    FlattenPlaces,
    Flip,
    GaussianNoise,
    GlobalAvgPool,
    GroupNorm,
    Hardsigmoid,
    Hardswish,
    InputPart,
    Interpolate,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool1d,
    MaxPool2d,
    Mish,
    Mul,
    MulParameter,
    Operation,
    Pair,
    Permute,
    PReLU,
    Reduce,
    ReflectionPad2d,
    ReLU,
    ReLU6,
    ReplicationPad2d,
    Reshape,
    Scaler,
    SelfAttention,
    Sigmoid,
    SiLU,
    Slice,
    Softplus,
    StochasticDepth,
    Tanh,
    Upsample,
    WithParameter,
    ZeroPad2d,
)
from edgefl.study.export import (
    onnx_expressions,
    onnx_norms,
    onnx_pools,
    onnx_resampling,
    onnx_sequences,
    onnx_transformers,
)
from edgefl.study.export.onnx_file import INT64, OPSET, Writer

__all__ = ["NODES", "OPSET", "to_onnx"]


def to_onnx(model: Model, classes: Sequence[int] | None = None, class_names: Sequence[str] | None = None) -> bytes:
    """Return the content of an .onnx file: input "input" [batch, *input_shape], output "output" [batch, *output_shape].

    classes      class that each output stands for, kept as metadata. None: the classes of the data, in order
    class_names  name of the class of each output, kept as metadata. None: the classes have no names
    Raises   GraphError if the parameters do not belong to the graph, or an operation has no row in NODES.
    """
    model.graph.check(model.params)
    writer = Writer(model)
    for node in before(model.graph, model.graph.nodes[-1].name):
        if type(node.op) not in NODES:
            raise GraphError(f"node {node.name!r}: edgefl does not write {node.op.title} to ONNX")
        writer.add(node, NODES[type(node.op)])
    return writer.content(class_metadata(classes, class_names))


def _both(padding: Pair) -> list[int]:
    """Return the paddings for the beginning and the end of each axis, which are equal."""
    return [*padding, *padding]


def _conv2d(op: Conv2d, inputs: list[str], to: Writer) -> str:
    return to.node(
        "Conv",
        *inputs,
        *to.parameters(),
        kernel_shape=op.kernel_size,
        strides=op.stride,
        pads=_both(op.padding),
        dilations=op.dilation,
        group=op.groups,
    )


def _linear(op: Linear, inputs: list[str], to: Writer) -> str:
    """Write a Linear layer, or a convolution of single cells if the layer works at each position."""
    if len(to.input_shape) == 1:
        return to.node("Gemm", *inputs, *to.parameters(), transB=1)
    cell = [1 for _ in to.input_shape[1:]]
    weight = to.parameter("weight", (op.out_features, op.in_features, *cell))
    return to.node("Conv", *inputs, weight, *([to.parameter("bias")] if op.bias else []), kernel_shape=cell)


def _conv1d(op: Conv1d, inputs: list[str], to: Writer) -> str:
    window = {"kernel_shape": [op.kernel_size], "strides": [op.stride], "pads": [op.padding] * 2}
    return to.node("Conv", *inputs, *to.parameters(), **window, dilations=[op.dilation], group=op.groups)


def _conv_transpose(op: ConvTranspose2d, inputs: list[str], to: Writer) -> str:
    return to.node(
        "ConvTranspose",
        *inputs,
        *to.parameters(),
        kernel_shape=op.kernel_size,
        strides=op.stride,
        pads=_both(op.padding),
        output_padding=op.output_padding,
        dilations=op.dilation,
        group=op.groups,
    )


def _identity(op: Operation, inputs: list[str], to: Writer) -> str:
    return to.node("Identity", *inputs)


def _noise(op: GaussianNoise, inputs: list[str], to: Writer) -> str:
    """Return normal numbers of ONNX's own generator, or zeros."""
    if op.in_evaluation:
        return to.node("RandomNormalLike", *inputs)
    return to.node("Mul", *inputs, to.constant("zero", 0.0))


def _leaky_relu(op: LeakyReLU, inputs: list[str], to: Writer) -> str:
    return to.node("LeakyRelu", *inputs, alpha=op.negative_slope)


def _elu(op: ELU, inputs: list[str], to: Writer) -> str:
    return to.node("Elu", *inputs, alpha=op.alpha)


def _prelu(op: PReLU, inputs: list[str], to: Writer) -> str:
    shape = (op.num_parameters, *(1 for _ in to.input_shape[1:]))
    return to.node("PRelu", *inputs, to.parameter("weight", shape))


def _silu(op: SiLU, inputs: list[str], to: Writer) -> str:
    return to.node("Mul", *inputs, to.node("Sigmoid", *inputs))


def _gelu(op: GELU, inputs: list[str], to: Writer) -> str:
    """Write x / 2 (1 + erf(x / sqrt 2)), or with tanh of sqrt(2 / pi) (x + .044715 x^3) in place of erf."""
    if op.approximate == "tanh":
        cube = to.node("Pow", *inputs, to.constant("three", 3.0))
        inner = to.node("Add", *inputs, to.node("Mul", cube, to.constant("cubic", 0.044715)))
        curve = to.node("Tanh", to.node("Mul", inner, to.constant("scale", math.sqrt(2 / math.pi))))
    else:
        curve = to.node("Erf", to.node("Mul", *inputs, to.constant("scale", math.sqrt(0.5))))
    share = to.node("Mul", to.node("Add", curve, to.constant("one", 1.0)), to.constant("half", 0.5))
    return to.node("Mul", *inputs, share)


def _softplus(op: Softplus, inputs: list[str], to: Writer) -> str:
    scaled = to.node("Mul", *inputs, to.constant("beta", op.beta))
    smooth = to.node("Div", to.node("Softplus", scaled), to.constant("beta", op.beta))
    return to.node("Where", to.node("Greater", scaled, to.constant("threshold", op.threshold)), *inputs, smooth)


def _reshape(op: Reshape, inputs: list[str], to: Writer) -> str:
    return to.node("Reshape", *inputs, to.constant("shape", [0, -1, *op.places]))


def _permute(op: Permute, inputs: list[str], to: Writer) -> str:
    return to.node("Transpose", *inputs, perm=[0, *(axis + 1 for axis in op.axes)])


def _flatten_positions(op: FlattenPlaces, inputs: list[str], to: Writer) -> str:
    rank = len(to.input_shape) + 1
    return to.node("Flatten", to.node("Transpose", *inputs, perm=[0, *range(2, rank), 1]))


def _slice(op: Slice, inputs: list[str], to: Writer) -> str:
    ends = to.constant("starts", [op.start]), to.constant("ends", [op.start + op.length])
    return to.node("Slice", *inputs, *ends, to.constant("axes", [2]))


def _part(op: InputPart, inputs: list[str], to: Writer) -> str:
    ends = to.constant("starts", [op.start]), to.constant("ends", [op.stop])
    part = to.node("Slice", *inputs, *ends, to.constant("axes", [1]))
    return to.node("Reshape", part, to.constant("shape", [0, *op.shape]))


def _embedding(op: Embedding, inputs: list[str], to: Writer) -> str:
    rows = to.node("Gather", to.parameter("weight"), to.node("Cast", *inputs, to=INT64))
    return to.node("Transpose", rows, perm=[0, 2, 1])


def _with_parameter(op: WithParameter, inputs: list[str], to: Writer) -> str:
    """Write the operation with its parameter's channels first. A value per channel holds for all positions."""
    value = np.reshape(to.value(""), op.shape if len(op.shape) > 1 else (*op.shape, *(1 for _ in to.input_shape[1:])))
    turned = np.moveaxis(value, -1, 0) if op.channels_last else value
    return to.node("Add" if isinstance(op, AddParameter) else "Mul", *inputs, to.constant("value", turned))


NODES: dict[type[Operation], Callable[[Any, list[str], Writer], str]] = {
    Conv2d: _conv2d,
    Conv1d: _conv1d,
    ConvTranspose2d: _conv_transpose,
    Linear: _linear,
    BatchNorm2d: onnx_norms.batch_norm,
    BatchNorm1d: onnx_norms.batch_norm,
    LayerNorm: onnx_norms.layer_norm,
    GroupNorm: onnx_norms.group_norm,
    ReLU: lambda op, inputs, to: to.node("Relu", *inputs),
    ReLU6: lambda op, inputs, to: to.node("Clip", *inputs, to.constant("low", 0.0), to.constant("high", 6.0)),
    LeakyReLU: _leaky_relu,
    ELU: _elu,
    Elementwise: onnx_expressions.expression,
    AdapterSum: onnx_expressions.expression,
    Reduce: onnx_expressions.reduction,
    PReLU: _prelu,
    Sigmoid: lambda op, inputs, to: to.node("Sigmoid", *inputs),
    Tanh: lambda op, inputs, to: to.node("Tanh", *inputs),
    SiLU: _silu,
    GELU: _gelu,
    Hardsigmoid: lambda op, inputs, to: to.node("HardSigmoid", *inputs, alpha=1 / 6, beta=0.5),
    Hardswish: lambda op, inputs, to: to.node("HardSwish", *inputs),
    Softplus: _softplus,
    Mish: lambda op, inputs, to: to.node("Mul", *inputs, to.node("Tanh", to.node("Softplus", *inputs))),
    MaxPool1d: onnx_pools.pool,
    AvgPool1d: onnx_pools.pool,
    AdaptiveAvgPool2d: onnx_pools.adaptive_pool,
    AdaptiveAvgPool1d: onnx_pools.adaptive_sequence,
    MaxPool2d: onnx_pools.pool,
    AvgPool2d: onnx_pools.pool,
    GlobalAvgPool: lambda op, inputs, to: to.node("GlobalAveragePool", *inputs),
    Flatten: lambda op, inputs, to: to.node("Flatten", *inputs),
    FlattenPlaces: _flatten_positions,
    Embedding: _embedding,
    AddParameter: _with_parameter,
    MulParameter: _with_parameter,
    Reshape: _reshape,
    Permute: _permute,
    InputPart: _part,
    Slice: _slice,
    Add: lambda op, inputs, to: to.node("Add", *inputs),
    Mul: lambda op, inputs, to: to.node("Mul", *inputs),
    Concat: lambda op, inputs, to: to.node("Concat", *inputs, axis=1),
    Upsample: onnx_resampling.upsample,
    ZeroPad2d: onnx_resampling.zero_pad,
    Interpolate: onnx_resampling.interpolate,
    **dict.fromkeys((ReflectionPad2d, ReplicationPad2d, CircularPad2d), onnx_resampling.border_pad),
    Flip: onnx_resampling.flip,
    **dict.fromkeys((RNN, GRU, LSTM), onnx_sequences.recurrent),
    SelfAttention: onnx_sequences.attention,
    **onnx_transformers.NODES,
    **dict.fromkeys((Dropout, Dropout1d, Dropout2d, StochasticDepth, Scaler), _identity),
    GaussianNoise: _noise,
}
