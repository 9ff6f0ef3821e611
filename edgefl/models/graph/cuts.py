"""The cuts of a graph into two parts: results from which everything after them follows. Graphs in, graphs out; no
parameters.

What lies before a cut can stand still: its outputs are computed once, and steps train what lies after on them. A
residual block is whole on one side, as two results cross between its branches. A personal head on a common body is the
last cut of all (heads.py).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from edgefl.errors import GraphError
from edgefl.models.graph.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import AnyDropout


@lru_cache(maxsize=64)
def cuts(graph: Graph) -> tuple[str, ...]:
    """Names of results to cut after, in order; with products before and after each, no two with the same ones before.

    Of the places between two products it is the one with the fewest values, the last of equals; but none beyond a
    dropout, which would never drop anything there.
    """
    products, found = graph.macs().keys(), dict[int, list[str]]()
    count, is_beyond_dropout = 0, False
    for at, node in enumerate(graph.nodes):
        count += node.name in products
        is_beyond_dropout = _drops(node) or (is_beyond_dropout and node.name not in products)
        if 0 < count < len(products) and not is_beyond_dropout and _is_crossed_alone(graph, at):
            found.setdefault(count, []).append(node.name)
    return tuple(min(reversed(names), key=lambda name: math.prod(graph.shapes[name])) for names in found.values())


def before(graph: Graph, cut: str) -> tuple[Node, ...]:
    """The nodes that a result depends on, its own last; none of "input".

    Raises  GraphError if there is no such result.
    """
    if cut not in graph.shapes:
        raise GraphError(f"cut after {cut!r}; expected a result of the graph: {', '.join(graph.shapes)}")
    wanted, kept = {cut}, []
    for node in reversed(graph.nodes):
        if node.name in wanted:
            wanted |= set(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def until(graph: Graph, cut: str) -> Graph:
    """All that leads to a result, as a graph whose output that is. Raises GraphError as `before`, and for "input"."""
    return graph.part(graph.input_shape, before(graph, cut))


def after(graph: Graph, cut: str) -> Graph:
    """All that follows from a result, as a graph of its own whose input that is.

    Raises  GraphError if there is no such result, or nothing after it, or not everything after it follows from it.
    """
    names = {node.name for node in before(graph, cut)}
    rest = tuple(
        replace(node, inputs=tuple(INPUT if name == cut else name for name in node.inputs))
        for node in graph.nodes
        if node.name not in names
    )
    if not rest:
        raise GraphError(f"cut after {cut!r}, the last result; expected one before it")
    reads = {name for node in graph.nodes if node.name not in names for name in node.inputs}
    if beside := sorted(reads & ({INPUT} | names) - {cut}):
        raise GraphError(f"cut after {cut!r}, beside which {beside[0]!r} is read; expected {_listed(graph)}")
    return graph.part(graph.shapes[cut], rest)


def _drops(node: Node) -> bool:
    return isinstance(node.op, AnyDropout) and node.op.p > 0


def _listed(graph: Graph) -> str:
    return f"one of {', '.join(cuts(graph))}" if cuts(graph) else "none, as nothing here is crossed by one result"


def _is_crossed_alone(graph: Graph, at: int) -> bool:
    """Whether of all that is there after this node its result alone is read later."""
    there = {INPUT, *(node.name for node in graph.nodes[: at + 1])}
    read = {name for node in graph.nodes[at + 1 :] for name in node.inputs}
    return there & read == {graph.nodes[at].name}
