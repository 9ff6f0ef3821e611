"""A graph of lines as one of planes of a single row: what kernels know. Names, inputs and parameters stay.

A result [channels, length] becomes [channels, 1, length], and an operation on such results its counterpart on planes,
whose weight [out, in, kernel] is [out, in, 1, kernel]: the same values in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from edgefl.graph.graph import Graph, Node
from edgefl.graph.operations import Operation, Shape


@lru_cache(maxsize=64)
def planar(graph: Graph) -> Graph:
    """The same graph where no result has two extents."""
    shapes = graph.shapes
    if all(len(shape) != 2 for shape in shapes.values()):
        return graph
    nodes = tuple(_node(node, shapes[node.inputs[0]]) for node in graph.nodes)
    return Graph(as_planes(graph.input_shape), nodes)


def as_planes(shape: Shape) -> Shape:
    """[channels, length] as [channels, 1, length]; others as they are."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape


def _node(node: Node, source: Shape) -> Node:
    if len(source) != 2:
        return node
    op: Operation = getattr(node.op, "as_planes", node.op)
    return replace(node, op=op)
