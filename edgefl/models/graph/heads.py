"""The head of a graph, its last Linear layer, separated from the body.

The functions take and return graphs without parameters. In methods with personal heads (FedPer, PFLEGO) the clients
share the body, and every client has a head over its own classes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from edgefl.errors import GraphError
from edgefl.models.graph.cuts import after
from edgefl.models.graph.graph import Graph, Node
from edgefl.models.graph.operations import Linear, Permute


def head_of(graph: Graph) -> Graph:
    """Return the last Linear layer and the nodes after it as a graph whose input is the features.

    Raises  GraphError if there is no Linear layer, or if a later node reads a result before this layer.
    """
    return after(graph, features_of(graph))


def features_of(graph: Graph) -> str:
    """Return the name of the result that the last Linear layer reads. Raises GraphError if there is no such layer."""
    last = next((node for node in reversed(graph.nodes) if isinstance(node.op, Linear)), None)
    if last is None:
        raise GraphError("features of a graph without a Linear layer; expected a Linear layer")
    return last.inputs[0]


def cut_before(graph: Graph, head: Collection[str]) -> str:
    """Return the name of the result from which these parameters' nodes and all nodes after them follow.

    Raises  GraphError if they follow from several results, or if a parameter besides them comes after this result.
    """
    first = next(node for node in graph.nodes if any(node.full_name(name) in head for name in node.op.parameters()))
    cut = first.inputs[0]
    if other := sorted(after(graph, cut).parameters().keys() - set(head)):
        raise GraphError(f"cut after {cut!r}, after which {other[0]} comes as well; expected a head without it")
    return cut


def drops_after(graph: Graph, cut: str) -> str:
    """Return the name of the first dropout layer after a result, or ""."""
    rest = after(graph, cut).nodes
    return next((node.name for node in rest if node.op.drops), "")


def with_classes(graph: Graph, classes: int) -> Graph:
    """Return the graph with `classes` outputs. Its last layer is a new one, which is not frozen.

    A Permute may follow the layer, as in a model of tokens whose classes are the last axis.
    Raises  GraphError unless the last node is a Linear layer with parameters of its own, or if `classes` is not
            positive.
    """
    *body, last = graph.nodes
    turns: tuple[Node, ...] = ()
    if isinstance(last.op, Permute) and last.inputs == (body[-1].name,):
        *body, last, turns = *body, (last,)
    if not isinstance(last.op, Linear):
        raise GraphError(f"head {last.name!r} is {last.op.title}; expected a Linear layer as the last node")
    resized = replace(last, op=replace(last.op, out_features=classes))
    if graph.auxiliary:
        found = ", ".join(each.result for each in graph.auxiliary)
        raise GraphError(f"head {last.name!r} of a graph with the auxiliary outputs {found}; expected one output")
    own = {last.full_name(name) for name in last.op.parameters()}
    if computed := sorted(own & graph.roots.keys()):
        raise GraphError(f"head {last.name!r}: {computed[0]} is computed; expected a head whose weight is a parameter")
    if shared := sorted(own & graph.shared.keys()):
        users = ", ".join(graph.shared[shared[0]])
        raise GraphError(f"head {last.name!r}: {shared[0]} has the uses {users}; expected a head that shares no weight")
    slices = tuple(each for each in graph.slices if each.name not in own)
    frozen, constants = graph.frozen - own, graph.constants - own
    return replace(graph, nodes=(*body, resized, *turns), frozen=frozen, slices=slices, constants=constants)
