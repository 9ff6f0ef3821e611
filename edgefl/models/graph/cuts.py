"""The cuts of a graph into two parts. A cut is a result from which everything after it follows.

This module takes graphs and returns graphs, without parameters. The part before a cut can stand still: its outputs are
computed once, and training steps run the part after the cut on them. A residual block is always whole on one side,
because two results cross between its branches. So are all uses of a shared parameter that is trained, because training
the part after the cut would change the part before it. The last of all cuts separates a common body from a personal
head (heads.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from edgefl.errors import GraphError
from edgefl.models.graph.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import BatchNorm, GaussianNoise, Scaler


@lru_cache(maxsize=64)
def cuts(graph: Graph) -> tuple[str, ...]:
    """Return the names of the results to cut after, in the order of the graph.

    Each cut has products before and after it. A product is a node that multiplies, such as a convolution (Graph.macs).
    No two cuts have the same products before them: among the results between two products, the cut is the result with
    the fewest values, and among equal results the last one. The results from a dropout up to the next product are not
    cuts, because a dropout before a cut would never drop anything. After a batch norm without running statistics there
    are no cuts, because its results depend on the batch. No cut follows a Scaler or noise, whose results
    differ between training and evaluation.
    """
    products, found = graph.macs().keys(), dict[int, list[str]]()
    count, is_beyond_dropout = 0, False
    for at, node in enumerate(graph.nodes):
        count += node.name in products
        is_of_batch = isinstance(node.op, BatchNorm) and not node.op.track_running_stats
        if is_of_batch or isinstance(node.op, Scaler | GaussianNoise):
            break
        is_beyond_dropout = _drops(node) or (is_beyond_dropout and node.name not in products)
        if 0 < count < len(products) and not is_beyond_dropout and _is_crossed_alone(graph, at):
            if _outputs_before(graph, at + 1) or _shared_across(graph, {each.name for each in graph.nodes[: at + 1]}):
                continue
            found.setdefault(count, []).append(node.name)
    return tuple(min(reversed(names), key=lambda name: math.prod(graph.shapes[name])) for names in found.values())


def before(graph: Graph, cut: str) -> tuple[Node, ...]:
    """Return the nodes that a result depends on, in the order of the graph. The last is the node of the result itself.

    For the result "input" there are no nodes.
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
    """Return everything that leads to a result as a graph with this result as output.

    Raises  GraphError like `before`, and if the result is "input".
    """
    return graph.part(graph.input_shape, before(graph, cut))


def after(graph: Graph, cut: str) -> Graph:
    """Return everything that follows from a result as a graph with this result as input.

    Raises  GraphError if there is no such result, if nothing comes after it, if a later node reads a result from
            before the cut, or if both sides share a parameter that is trained, or if an auxiliary output comes
            before the cut.
    """
    names = {node.name for node in before(graph, cut)}
    rest = tuple(
        replace(node, inputs=tuple(INPUT if name == cut else name for name in node.inputs))
        for node in graph.nodes
        if node.name not in names
    )
    if not rest:
        raise GraphError(f"cut after {cut!r}, the last result; expected an earlier result")
    reads = {name for node in graph.nodes if node.name not in names for name in node.inputs}
    if beside := sorted(reads & ({INPUT} | names) - {cut}):
        raise GraphError(f"cut after {cut!r}, after which {beside[0]!r} is read as well; expected {_listed(graph)}")
    if early := [each.result for each in graph.auxiliary if each.result in names]:
        raise GraphError(f"cut after {cut!r}, before which {early[0]!r} is an output; expected {_listed(graph)}")
    if shared := _shared_across(graph, names):
        raise GraphError(f"cut after {cut!r}, both sides of which share {shared!r}; expected {_listed(graph)}")
    return graph.part(graph.shapes[cut], rest)


def _outputs_before(graph: Graph, at: int) -> bool:
    return any(each.result == node.name for each in graph.auxiliary for node in graph.nodes[:at])


def _shared_across(graph: Graph, names: Collection[str]) -> str | None:
    """Return a trained parameter that nodes with these names share with other nodes, or else None."""
    for name, users in graph.shared.items():
        if name not in graph.frozen and 0 < sum(user in names for user in users) < len(users):
            return name
    return None


def _drops(node: Node) -> bool:
    return node.op.drops


def _listed(graph: Graph) -> str:
    return (
        f"one of {', '.join(cuts(graph))}"
        if cuts(graph)
        else "no cut, as this graph has no result that alone feeds all later nodes"
    )


def _is_crossed_alone(graph: Graph, at: int) -> bool:
    """Return whether later nodes read this node's result and no other result that exists after this node."""
    there = {INPUT, *(node.name for node in graph.nodes[: at + 1])}
    read = {name for node in graph.nodes[at + 1 :] for name in node.inputs}
    return there & read == {graph.nodes[at].name}
