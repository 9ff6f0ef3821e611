"""A graph of lines as one of planes of a single row: what kernels know. Names, inputs and parameters stay.

A result [channels, length] becomes [channels, 1, length], and an operation on such results its counterpart on planes,
whose weight [out, in, kernel] is [out, in, 1, kernel]: the same values in the same order. A Linear layer at each place
is a convolution of single cells.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from edgefl.models.graph.graph import Graph, Node
from edgefl.models.graph.operations import Linear, Operation, Shape


@lru_cache(maxsize=64)
def planar(graph: Graph) -> Graph:
    """The same graph where no result has two extents."""
    shapes = graph.shapes
    nodes = tuple(_node(node, shapes[node.inputs[0]], shapes[node.name]) for node in graph.nodes)
    if nodes == graph.nodes and len(graph.input_shape) != 2:
        return graph
    return Graph(as_planes(graph.input_shape), nodes, graph.frozen)


def as_planes(shape: Shape) -> Shape:
    """[channels, length] as [channels, 1, length]; others as they are."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape


def takes(graph: Graph, shape: Shape) -> bool:
    """Whether examples of this shape are a graph's: as its input is, or with one channel before a line or sequence, as
    readers of images have it.
    """
    return shape == graph.input_shape or (len(graph.input_shape) == 2 and shape == (1, *graph.input_shape))


def _node(node: Node, source: Shape, result: Shape) -> Node:
    is_of_positions = isinstance(node.op, Linear) and len(source) == 3
    if 2 not in (len(source), len(result)) and not is_of_positions:
        return node
    op: Operation = getattr(node.op, "as_planes", node.op)
    return node if op == node.op else replace(node, op=op)
