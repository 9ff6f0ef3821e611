"""In-place operations of an exported graph. A graph of edgefl has values, not memory.

A write is followed where all later readers read the written tensor itself. It is refused where a later node reads
another view of the written memory.
"""

from __future__ import annotations

import torch
from torch import fx

from edgefl.errors import GraphError
from edgefl.torch.code_lines import packet

SHARING = frozenset(("contiguous", "to", "type_as", "dropout", "feature_dropout", "lift_fresh", "reshape", "flatten"))
"""Operations that may return the memory of their input, though their schema does not say so."""


def is_in_place(node: fx.Node) -> bool:
    """Return whether a node writes into its first argument."""
    schema = getattr(node.target, "_schema", None)
    first = schema.arguments[0] if schema is not None and schema.arguments else None
    return first is not None and first.alias_info is not None and first.alias_info.is_write


class Memory:
    """The memory of an exported graph: nodes that may share it."""

    def __init__(self, graph: fx.Graph) -> None:
        self._order = {node: at for at, node in enumerate(graph.nodes)}
        self._base: dict[fx.Node, fx.Node] = {}
        self._views: dict[fx.Node, list[fx.Node]] = {}
        for node in graph.nodes:
            source = node.args[0] if node.args else None
            shares = isinstance(source, fx.Node) and (_is_view(node) or is_in_place(node))
            base = self._base[source] if shares else node  # type: ignore[index]
            self._base[node] = base
            self._views.setdefault(base, []).append(node)

    def base(self, node: fx.Node) -> fx.Node:
        """Return the node that made the memory of a node."""
        return self._base[node]

    def overwritten(self, node: fx.Node) -> list[fx.Node]:
        """Return the earlier nodes that are the tensor itself into which `node` writes.

        Raises  GraphError if a later node reads another view of its memory
        """
        target = node.args[0]
        assert isinstance(target, fx.Node)
        earlier = [each for each in self._views[self._base[target]] if self._order[each] < self._order[node]]
        same = {each for each in earlier if _is_same(each, target)}
        for view in earlier:
            later = [user for user in view.users if self._order[user] > self._order[node] and not _reads_size(user)]
            if view not in same and later:
                raise GraphError(f"in place, and {later[0]} reads the overwritten {view}; expected inplace=False")
        return list(same)


def _is_view(node: fx.Node) -> bool:
    if packet(node) in SHARING:
        return True
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return any(each.alias_info is not None for each in returns)


def _is_same(one: fx.Node, other: fx.Node) -> bool:
    """Return whether two nodes are one tensor: the same node, or joined by operations that keep all values in place."""
    return _whole(one) is _whole(other)


def _whole(node: fx.Node) -> fx.Node:
    """Return the first node of the chain of nodes that are the tensor `node` itself."""
    while isinstance(source := node.args[0] if node.args else None, fx.Node):
        if not (is_in_place(node) or packet(node) == "alias"):
            break
        node = source
    return node


def _reads_size(node: fx.Node) -> bool:
    return node.target is torch.ops.aten.sym_size.int
