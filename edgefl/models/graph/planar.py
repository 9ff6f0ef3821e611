"""A graph of sequences as a graph of planes of one row, which kernels can run. Names, inputs and parameters stay.

A result [channels, length] becomes [channels, 1, length]. An operation on such results becomes its counterpart on
planes. Its weight [out, in, kernel] becomes [out, in, 1, kernel], with the same values in the same order. A Linear
layer at each position becomes a convolution with windows of one cell.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from edgefl.models.graph.graph import Graph, Node
from edgefl.models.graph.operations import Linear, Operation, Shape


@lru_cache(maxsize=64)
def planar(graph: Graph) -> Graph:
    """Return the equivalent graph in which no result has two extents."""
    shapes = graph.shapes
    nodes = tuple(_node(node, shapes[node.inputs[0]], shapes[node.name]) for node in graph.nodes)
    if nodes == graph.nodes and len(graph.input_shape) != 2:
        return graph
    return replace(graph, input_shape=as_planes(graph.input_shape), nodes=nodes)


def as_planes(shape: Shape) -> Shape:
    """Return [channels, length] as [channels, 1, length]. Return other shapes as they are."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape


def takes(graph: Graph, shape: Shape) -> bool:
    """Return whether a graph takes samples of this shape.

    It takes its input shape. A graph of sequences also takes one channel before its input shape, as readers of images
    add it.
    """
    return shape == graph.input_shape or (len(graph.input_shape) == 2 and shape == (1, *graph.input_shape))


def _node(node: Node, source: Shape, result: Shape) -> Node:
    is_of_positions = isinstance(node.op, Linear) and len(source) == 3
    if 2 not in (len(source), len(result)) and not is_of_positions:
        return node
    op: Operation = getattr(node.op, "as_planes", node.op)
    return node if op == node.op else replace(node, op=op)
