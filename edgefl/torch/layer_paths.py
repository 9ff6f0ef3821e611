"""The places of a graph's layers in a torch module: at which path the layer of a node lies, and which layers are one.

A layer lies at the path with which all names of its parameters begin. For most nodes this is the node's name. Nodes
with the same parameters and settings are one layer that is called several times. No module is made here.
"""

from __future__ import annotations

from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import WithParameter


def module_path(node: Node) -> str:
    """Return the path with which the names of all parameters of a node begin, or else the name of the node."""
    parts = node.op.parameters()
    names = [(part, node.full_name(part)) for part in parts]
    paths = {full.removesuffix(f".{part}") for part, full in names if full.endswith(f".{part}")}
    is_common = len(paths) == 1 and all(full == f"{next(iter(paths))}.{part}" for part, full in names)
    return paths.pop() if is_common else node.name


def layer_paths(graph: Graph) -> dict[str, str]:
    """Return the path of each node's layer, by the node's name. A node with its parameter alone has no layer."""
    layers = [node for node in graph.nodes if not isinstance(node.op, WithParameter)]
    wanted = {module_path(node) for node in layers if node.op.parameters()}
    owners: dict[str, Node] = {}
    paths = {}
    for node in layers:
        path = module_path(node)
        owner = owners.get(path)
        if owner is not None and not _is_same_layer(graph, owner, node):
            path = _unused(node.name, wanted | owners.keys())
        elif not node.op.parameters() and path in wanted:
            path = _unused(path, wanted | owners.keys())
        owners.setdefault(path, node)
        paths[node.name] = path
    return paths


def _is_same_layer(graph: Graph, one: Node, other: Node) -> bool:
    """Return whether two nodes with one path are calls of one layer."""
    extents = {len(graph.shapes[node.inputs[0]]) for node in (one, other)}
    return bool(one.op.parameters()) and one.op == other.op and len(extents) == 1


def _unused(name: str, taken: set[str]) -> str:
    """Return the first of name, name_1, name_2, ... that is not taken."""
    number = 0
    while (f"{name}_{number}" if number else name) in taken:
        number += 1
    return f"{name}_{number}" if number else name
