"""The layers whose neurons are heads of an Attention, found by following its input back.

A neuron is a head of keys and values with the heads of queries that share it. Its rows lie in the layers that make
queries, keys and values, or in three parts of one layer.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Attention, Concat, Conv2d, Operation, RMSNorm, Rotary


class HeadRows(NamedTuple):
    """The rows of a layer that belong to heads.

    group  name of the group, which is the name of the first layer
    heads  number of heads of keys and values
    parts  number of rows of each head, for each part of the layer's rows
    """

    group: str
    heads: int
    parts: tuple[int, ...]


def layers_of_heads(graph: Graph) -> dict[str, HeadRows]:
    """Return the layers of a graph of planes whose rows belong to heads of an Attention, by name.

    An Attention is left out if something else makes its input, if something else reads the results on the way, or if
    its heads have biases of their own.
    """
    makers = {node.name: node for node in graph.nodes}
    readers: dict[str, int] = {}
    for name in (name for node in graph.nodes for name in node.inputs):
        readers[name] = readers.get(name, 0) + 1
    found: dict[str, HeadRows] = {}
    for node in graph.nodes:
        if isinstance(node.op, Attention) and node.op.bias[:1] in ((), (1,)):
            found |= _layers(node, node.op, makers, readers, list(makers))
    return found


def _layers(
    node: Node, op: Attention, makers: dict[str, Node], readers: dict[str, int], order: list[str]
) -> dict[str, HeadRows]:
    rows = (op.shared, op.head_dim, op.head_dim)
    parts = _parts(node, makers, readers)
    layers = [_layer(name, makers, readers, op.head_dim) for name in parts]
    if len(layers) not in (1, 3) or None in layers:
        return {}
    names = [layer.name for layer in layers if layer is not None]
    if len(set(names)) < len(names):
        return {}
    first = min(names, key=order.index)
    if len(names) == 1:
        return {first: HeadRows(first, op.kv_heads, rows)}
    return {name: HeadRows(first, op.kv_heads, (each,)) for name, each in zip(names, rows, strict=True)}


def _parts(node: Node, makers: dict[str, Node], readers: dict[str, int]) -> tuple[str, ...]:
    """Return the results that the input of an Attention consists of."""
    source = makers.get(node.inputs[0])
    is_joined = source is not None and isinstance(source.op, Concat) and readers[source.name] == 1
    return source.inputs if source is not None and is_joined else node.inputs


def _layer(name: str, makers: dict[str, Node], readers: dict[str, int], head_dim: int) -> Node | None:
    """Return the layer that makes a result, seen through norms of heads and rotary positions."""
    node = makers.get(name)
    while node is not None and readers[node.name] == 1 and _keeps_heads(node.op, head_dim):
        node = makers.get(node.inputs[0])
    is_layer = node is not None and isinstance(node.op, Conv2d) and node.op.groups == 1
    return node if node is not None and is_layer and readers[node.name] == 1 else None


def _keeps_heads(op: Operation, head_dim: int) -> bool:
    size = op.num_features if isinstance(op, RMSNorm) else op.head_dim if isinstance(op, Rotary) else 0
    return size > 0 and head_dim % size == 0
