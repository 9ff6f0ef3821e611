"""Products with a frozen weight that a model keeps transposed, without turning the weight.

Such a weight is W = S^T, where S is a parameter. The forward product with W is what the input gradient is for S, and
the input gradient for W is what the forward product is for S. So each pass takes the kernel of the other direction.
Hugging Face's GPT-2 keeps its weights like that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

from edgefl.learning.lowering.quantized_weights import ONE_CELL
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.computed_parameters import TransposedMatrix
from edgefl.models.graph.operations import Conv2d, Linear


@lru_cache(maxsize=64)
def turned_weights(graph: Graph) -> Mapping[str, Param]:
    """Return for each weight that no pass has to turn the parameter S of which it is the transpose.

    All nodes that read such a weight are Linear layers, or convolutions with windows of one cell, without trained
    parameters. `graph` is a graph of planes (models/graph/planar.py).
    """
    readers: dict[str, list[tuple[Node, str]]] = defaultdict(list)
    for node in graph.nodes:
        for part in node.op.parameters():
            readers[node.full_name(part)].append((node, part))
    sources = {name for each in graph.computed for name in each.sources}
    return {
        each.name: Param(each.sources[0], each.op.sources[0])
        for each in graph.computed
        if isinstance(each.op, TransposedMatrix)
        and each.sources[0] in graph.frozen
        and each.name not in sources
        and all(part == "weight" and _is_able(graph, node) for node, part in readers[each.name])
    }


def _is_able(graph: Graph, node: Node) -> bool:
    has_bias = isinstance(node.op, Linear | Conv2d) and node.op.bias
    if has_bias and node.full_name("bias") not in graph.frozen:
        return False
    if isinstance(node.op, Conv2d):
        op = node.op
        return op.kernel_size == (1, 1) and (op.stride, op.padding, op.dilation, op.groups) == ONE_CELL
    return isinstance(node.op, Linear)


def turned_weight(recorder: Recorder, node: Node) -> Param | None:
    """Return the parameter S of a node whose weight is its transpose, or None for any other node."""
    graph = recorder.scope.graph
    return turned_weights(graph).get(node.full_name("weight")) if graph.computed else None


def forward(recorder: Recorder, weight: Param, x: Tensor, bias: Param | Tensor | None, y: Tensor) -> None:
    """Record y = S^T x + bias, where S is [inputs, outputs] and x is [B, inputs] or [B, inputs, height, width]."""
    if len(x.shape) == 2:
        recorder.call("linear_grad_input", x, weight, y, None, None)
    else:
        recorder.call("conv2d_grad_input", x, weight.view(*weight.shape, 1, 1), y, *ONE_CELL, None, None)
    if bias is not None:
        recorder.call("add_channels", y if len(y.shape) > 2 else y.view(*y.shape, 1), bias)


def input_gradient(recorder: Recorder, weight: Param, dy: Tensor, dx: Tensor) -> None:
    """Record dx = S dy for all channels."""
    if len(dy.shape) == 2:
        recorder.call("linear_forward", dy, weight, None, dx)
    else:
        recorder.call("conv2d_forward", dy, weight.view(*weight.shape, 1, 1), None, dx, *ONE_CELL)
