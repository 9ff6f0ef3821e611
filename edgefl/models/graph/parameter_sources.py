"""The parameters behind the nodes of a graph: directly, or as sources of computed parameters. No values are read."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from edgefl.errors import GraphError
from edgefl.models.graph.computed_parameters import ComputedParameter
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import ParamInfo, Shape
from edgefl.models.graph.shared_parameters import parameter_uses

LONGEST_NAME = 200
PARAMETER_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
Computed = tuple[ComputedParameter, ...]


def roots_of(computed: Computed) -> dict[str, tuple[str, ...]]:
    """Return for each computed parameter the parameters from which it follows, each once, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for each in computed:
        found[each.name] = tuple(dict.fromkeys(root for name in each.sources for root in found.get(name, (name,))))
    return found


def parameter_infos(nodes: Sequence[Node], computed: Computed) -> dict[str, ParamInfo]:
    """Return the shape and kind of every parameter by full name, in the order of the first nodes that need them."""
    shapes = {name: shape for each in computed for name, shape in zip(each.sources, each.op.sources, strict=True)}
    roots, infos = roots_of(computed), dict[str, ParamInfo]()
    for name, (use, *_) in parameter_uses(nodes).items():
        for root in roots.get(name, (name,)):
            infos.setdefault(root, use.info if root == name else ParamInfo(shapes[root]))
    return infos


def users_of(nodes: Sequence[Node], computed: Computed) -> dict[str, tuple[str, ...]]:
    """Return the nodes and computed parameters that read each parameter, computed ones included, by name."""
    users = {name: [use.node.name for use in uses] for name, uses in parameter_uses(nodes).items()}
    for each in computed:
        for name in dict.fromkeys(each.sources):
            users.setdefault(name, []).append(each.name)
    return {name: tuple(readers) for name, readers in users.items()}


def nodes_behind(nodes: Sequence[Node], computed: Computed) -> dict[str, tuple[str, ...]]:
    """Return the nodes that need each parameter, directly or through computed parameters, in node order."""
    roots, found = roots_of(computed), dict[str, dict[str, None]]()
    for name, uses in parameter_uses(nodes).items():
        for root in roots.get(name, (name,)):
            found.setdefault(root, {}).update(dict.fromkeys(use.node.name for use in uses))
    order = {node.name: at for at, node in enumerate(nodes)}
    return {name: tuple(sorted(each, key=order.__getitem__)) for name, each in found.items()}


def needed_for(names: Collection[str], computed: Computed) -> Computed:
    """Return the computed parameters with these names, and all of their computed sources, in the graph's order."""
    wanted = set(names)
    kept = []
    for each in reversed(computed):
        if each.name in wanted:
            wanted |= set(each.sources)
            kept.append(each)
    return tuple(reversed(kept))


def check_computed(nodes: Sequence[Node], computed: Computed, frozen: Collection[str]) -> None:
    """Raise GraphError unless names, order, shapes and uses of the computed parameters are as they should be."""
    names, uses = {each.name for each in computed}, parameter_uses(nodes)
    shapes: dict[str, Shape] = {name: use.info.shape for name, (use, *_) in uses.items() if name not in names}
    statistics = {name for name, (use, *_) in uses.items() if use.info.kind == "stat"}
    known: set[str] = set()
    for each in computed:
        where = f"computed parameter {each.name[:LONGEST_NAME]!r}"
        for name in (each.name, *each.sources):
            if len(name) > LONGEST_NAME or not PARAMETER_NAME.fullmatch(name):
                raise GraphError(
                    f"{where}: name {name[:LONGEST_NAME]!r}; expected letters, digits, _, - and inner dots"
                )
        if each.name in known or each.name in frozen:
            raise GraphError(f"{where} is listed twice or frozen; expected it once, and its sources to be frozen")
        if moved := sorted(statistics & set(each.sources)):
            raise GraphError(f"{where}: source {moved[0]!r} is a running statistic; expected a trained parameter")
        _check_sources(each, where, names - known, shapes)
        known.add(each.name)
        shapes[each.name] = each.op.result
    for name, each_use in uses.items():
        for use in each_use if name in names else ():
            if _extents(use.info.shape) != _extents(shapes[name]) or use.info.kind != "learn":
                found = f"computed parameter {name!r} of shape {shapes[name]} in node {use.node.name!r}"
                raise GraphError(f"{found}; expected a {use.info.kind} parameter of shape {use.info.shape}")
    read = uses.keys() | {name for each in computed for name in each.sources}
    if idle := sorted(names - read):
        raise GraphError(f"computed parameter {idle[0]!r} is never used; expected a node that uses it")


def _check_sources(each: ComputedParameter, where: str, later: Collection[str], shapes: dict[str, Shape]) -> None:
    """Raise GraphError unless the sources are known, as many as the operation has, and of its shapes."""
    if len(each.sources) != len(each.op.sources):
        raise GraphError(f"{where}: sources {each.sources}; {each.op.title} expects {len(each.op.sources)}")
    for name, shape in zip(each.sources, each.op.sources, strict=True):
        if name in later:
            raise GraphError(f"{where}: source {name!r} comes later; expected topological order")
        if shapes.setdefault(name, shape) != shape:
            raise GraphError(f"{where}: source {name!r} of shape {shapes[name]}; {each.op.title} expects {shape}")


def _extents(shape: Shape) -> Shape:
    """Return the extents above 1, because planes have an axis more than sequences (planar.py)."""
    return tuple(extent for extent in shape if extent > 1)
