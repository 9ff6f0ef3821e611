"""A model as ONNX: opset 17, a free batch, the weights inside. Written without torch, by the onnx package.

Every operation has one function in the table NODES, which says what it is in ONNX's operators; a new operation needs
one more. Results are "NODE:0" and so on, after the graph's nodes; parameters keep their names. Inputs are what the
model is trained on, so samples must be scaled as they were then; outputs are logits, without a softmax.
Source of the operators: onnx/docs/Operators.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError as error:
    needed = "edgefl.export.onnx needs onnx, which is not installed; pip install 'edgefl[onnx]'"
    raise ModuleNotFoundError(needed) from error

from edgefl import __version__
from edgefl.errors import GraphError
from edgefl.graph import INPUT, Model, Node
from edgefl.graph.files import CLASSES_KEY
from edgefl.graph.operations import (
    Add,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Operation,
    Pair,
    ReLU,
)

OPSET, IR_VERSION = 17, 8  # the version of the file's form that came with the opset: older readers take it
OUTPUT = "output"
BATCH = "batch"


def to_onnx(model: Model, classes: Sequence[int] | None = None) -> bytes:
    """The content of an .onnx file: input "input" [batch, *input_shape], output "output" [batch, *output_shape].

    classes  what each output stands for, kept as metadata; None: the data's classes, in order
    Raises   GraphError if the parameters do not belong to the graph, or an operation has no row in NODES.
    """
    model.graph.check(model.params)
    writer = Writer(model)
    for node in model.graph.nodes:
        writer.add(node)
    writer.nodes[-1].output[0] = OUTPUT
    graph = model.graph
    written = helper.make_graph(
        writer.nodes,
        "edgefl",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [BATCH, *graph.input_shape])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [BATCH, *graph.output_shape])],
        [numpy_helper.from_array(value, name) for name, value in writer.values.items()],
    )
    whole = helper.make_model(
        written,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="edgefl",
        producer_version=__version__,
    )
    if classes is not None:
        helper.set_model_props(whole, {CLASSES_KEY: json.dumps(list(classes))})
    return bytes(whole.SerializeToString(deterministic=True))


class Writer:
    """The nodes and constants of an ONNX graph as they come to be.

    nodes   in topological order
    values  parameters and constants by name, in the order in which they were asked for
    """

    def __init__(self, model: Model) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, np.ndarray] = {}
        self._model = model
        self._results = {INPUT: INPUT}  # of the model's graph -> of the ONNX graph
        self._at = model.graph.nodes[0]
        self._count = 0

    def add(self, node: Node) -> None:
        """A node of the model's graph, in the words of ONNX."""
        if type(node.op) not in NODES:
            raise GraphError(f"node {node.name!r}: {node.op.title} has no form in ONNX here")
        self._at, self._count = node, 0
        inputs = [self._results[name] for name in node.inputs]
        self._results[node.name] = NODES[type(node.op)](node.op, inputs, self)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """One ONNX operator with these attributes; the name of its result."""
        name = f"{self._at.name}:{self._count}"
        self._count += 1
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def parameters(self) -> list[str]:
        """All parameters of the present node, in torch's order."""
        return [self.parameter(name) for name in self._at.op.parameters()]

    def parameter(self, name: str, shape: Sequence[int] | None = None) -> str:
        """A parameter of the present node, in its own shape or another."""
        full = f"{self._at.name}.{name}"
        value = np.ascontiguousarray(self._model.params[full])
        self.values[full] = value if shape is None else value.reshape(shape)
        return full

    def constant(self, name: str, value: Any) -> str:
        """Numbers that are no parameter of the model; int64 for integers, float32 for others."""
        full, array = f"{self._at.name}:{name}", np.asarray(value)
        self.values[full] = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        return full


def _both(padding: Pair) -> list[int]:
    """As much at the beginning of each axis as at its end."""
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
    return to.node("Gemm", *inputs, *to.parameters(), transB=1)


def _batch_norm(op: BatchNorm2d, inputs: list[str], to: Writer) -> str:
    return to.node("BatchNormalization", *inputs, *to.parameters(), epsilon=op.eps)


def _group_norm(op: GroupNorm, inputs: list[str], to: Writer) -> str:
    """Each group is an instance of one channel; then back to planes, and the affine pair of each channel."""
    groups = to.node("Reshape", *inputs, to.constant("groups", [0, op.num_groups, -1]))
    ones, zeros = (to.constant(name, np.full(op.num_groups, float(value))) for name, value in (("one", 1), ("zero", 0)))
    normed = to.node("InstanceNormalization", groups, ones, zeros, epsilon=op.eps)
    planes = to.node("Reshape", normed, to.node("Shape", *inputs))
    scaled = to.node("Mul", planes, to.parameter("weight", (op.num_channels, 1, 1)))
    return to.node("Add", scaled, to.parameter("bias", (op.num_channels, 1, 1)))


def _leaky_relu(op: LeakyReLU, inputs: list[str], to: Writer) -> str:
    return to.node("LeakyRelu", *inputs, alpha=op.negative_slope)


def _max_pool(op: MaxPool2d, inputs: list[str], to: Writer) -> str:
    return to.node("MaxPool", *inputs, kernel_shape=op.kernel_size, strides=op.stride, pads=_both(op.padding))


def _avg_pool(op: AvgPool2d, inputs: list[str], to: Writer) -> str:
    window = {"kernel_shape": op.kernel_size, "strides": op.stride, "pads": _both(op.padding)}
    return to.node("AveragePool", *inputs, **window, count_include_pad=int(op.count_include_pad))


NODES: dict[type[Operation], Callable[[Any, list[str], Writer], str]] = {
    Conv2d: _conv2d,
    Linear: _linear,
    BatchNorm2d: _batch_norm,
    GroupNorm: _group_norm,
    ReLU: lambda op, inputs, to: to.node("Relu", *inputs),
    LeakyReLU: _leaky_relu,
    MaxPool2d: _max_pool,
    AvgPool2d: _avg_pool,
    GlobalAvgPool: lambda op, inputs, to: to.node("GlobalAveragePool", *inputs),
    Flatten: lambda op, inputs, to: to.node("Flatten", *inputs),
    Add: lambda op, inputs, to: to.node("Add", *inputs),
}
