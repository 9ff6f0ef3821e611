"""Questions to the nodes of an exported graph."""

from __future__ import annotations

from typing import Any

from torch import fx

from edgefl.torch.code_lines import packet
from edgefl.torch.in_place_writes import is_in_place

SDPA = "scaled_dot_product_attention"


def is_whole_slice(node: fx.Node) -> bool:
    """Return whether a slice takes everything."""
    source = node.args[0]
    return (
        packet(node) == "slice" and isinstance(source, fx.Node) and node.meta["val"].shape == source.meta["val"].shape
    )


def is_cast_to_itself(node: fx.Node) -> bool:
    """Return whether a cast keeps the type."""
    if packet(node) not in ("to", "_to_copy", "type_as"):
        return False
    kept: bool = node.meta["val"].dtype == node.all_input_nodes[0].meta["val"].dtype
    return kept


def live(graph: fx.Graph) -> set[fx.Node]:
    """Return the nodes that the output needs, and the writes in place with what they need."""
    live: set[fx.Node] = set()
    waiting = [node for node in graph.nodes if node.op == "output" or is_in_place(node)]
    while waiting:
        node = waiting.pop()
        if node not in live:
            live.add(node)
            waiting += node.all_input_nodes
    return live


def bare(node: object) -> Any:
    """Return a node seen through casts to its own type, copies and slices that take everything."""
    while isinstance(node, fx.Node) and node.args:
        same = packet(node) in ("alias", "contiguous", "clone") or is_whole_slice(node)
        if not (same or is_cast_to_itself(node)):
            break
        node = node.args[0]
    return node


def drops_attention(graph: fx.Graph) -> bool:
    """Return whether an attention of a graph drops weights of values."""
    found = [node for node in graph.nodes if node.op == "call_function" and packet(node) == SDPA]
    return any(bool(node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0)) for node in found)
