"""The comparison of a module in training with the module in evaluation, by the graphs of both modes.

Dropout and batch statistics are known differences: the engine follows them. So are noise and factors that training has
and evaluation does not have, as in a variational autoencoder and in HeteroFL. Every other difference is refused,
because training would be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import (
    VIEWS,
    Add,
    AnyDropout,
    Attention,
    Elementwise,
    Flatten,
    GaussianNoise,
    Mul,
    MulParameter,
    Operation,
    Permute,
    Scaler,
)

Values = Mapping[str, Tensor]
NOTHING = -1  # the place of a result that is 0 in evaluation


class ConvertedMode(Protocol):
    """A module converted in one mode: its graph, its constants, and the names of its outputs."""

    @property
    def graph(self) -> Graph: ...
    @property
    def constants(self) -> dict[str, Tensor]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...


class Read(NamedTuple):
    """An operation of a graph: the name of its node, the places of what it reads, and its parameters."""

    name: str
    op: Operation
    places: tuple[int, ...]
    values: tuple[Any, ...]


def agreed(training: ConvertedMode, evaluation: ConvertedMode) -> Graph:
    """Return the graph of a module in training, with the factors and the noise that evaluation does not have marked.

    Only outputs that both modes have are compared.
    Raises  GraphError unless the graphs agree but for dropouts, such factors and such noise.
    """
    shared = [True, *(name in evaluation.outputs[1:] for name in training.outputs[1:])]
    graph = training.graph if _has_noise(evaluation.graph) else _quiet(training.graph)
    results = [name for name, is_shared in zip(_results(graph), shared, strict=True) if is_shared]
    expected = _rows(evaluation.graph, evaluation.constants, _results(evaluation.graph))
    factors: dict[str, float] = {}
    while True:
        found = _rows(graph, training.constants, results, factors)
        pairs = zip_longest(found, expected)
        one, other = next(((one, other) for one, other in pairs if _told_apart(one, other)), (None, None))
        if one is None and other is None:
            return _scaled(graph, factors)
        factor = None if one is None else _factor(graph, one, training.constants)
        if one is None or factor is None:
            raise GraphError(
                f"in training mode forward computes {_told(one)}, and in evaluation mode {_told(other)}; expected "
                "dropouts, noise, BatchNorms and factors as the only differences, and no further outputs in training"
            )
        factors[one.name] = factor


def _told_apart(one: Read | None, other: Read | None) -> bool:
    return one is None or other is None or one[1:] != other[1:]


def _has_noise(graph: Graph) -> bool:
    return any(isinstance(node.op, GaussianNoise) for node in graph.nodes)


def _quiet(graph: Graph) -> Graph:
    """Return the graph with noise that evaluation does not draw."""
    if not _has_noise(graph):
        return graph
    nodes = (replace(each, op=GaussianNoise(False)) if isinstance(each.op, GaussianNoise) else each
             for each in graph.nodes)  # fmt: skip
    return replace(graph, nodes=tuple(nodes))


def _factor(graph: Graph, read: Read, constants: Values) -> float | None:
    """Return the positive number by which a node multiplies its input, or None for another node."""
    if not isinstance(read.op, MulParameter):
        return None
    node = next(each for each in graph.nodes if each.name == read.name)
    (name,) = (node.full_name(part) for part in node.op.parameters())
    if name not in constants or not bool((constants[name] == constants[name].flatten()[0]).all()):
        return None
    found = float(constants[name].flatten()[0])
    return found if found > 0 else None


def _scaled(graph: Graph, factors: Mapping[str, float]) -> Graph:
    """Return the graph with a Scaler in place of each of these nodes."""
    if not factors:
        return graph
    nodes = tuple(
        Node(node.name, Scaler(factors[node.name]), node.inputs) if node.name in factors else node
        for node in graph.nodes
    )
    left = {node.full_name(part) for node in nodes for part in node.op.parameters()} | graph.roots.keys()
    left |= {root for roots in graph.roots.values() for root in roots}
    return replace(graph, nodes=nodes, frozen=graph.frozen & left, constants=graph.constants & left)


def _results(graph: Graph) -> tuple[str, ...]:
    """Return the names of the output and of the auxiliary outputs."""
    return (graph.nodes[-1].name, *(each.result for each in graph.auxiliary))


def _rows(graph: Graph, constants: Values, results: Collection[str], skipped: Collection[str] = ()) -> list[Read]:
    """Return the operations that evaluation needs for these results, without dropouts and without these nodes.

    A Flatten of features changes nothing. It stands at an output that the graph also reads.
    """
    places: dict[str, int] = {INPUT: 0}
    rows: list[Read] = []
    for node in graph.nodes:
        given = tuple(places[name] for name in node.inputs)
        place = _place(graph, node, given, skipped)
        if place is None:
            names = [node.full_name(part) for part in node.op.parameters()]
            values = tuple(_value(constants[name]) if name in constants else name for name in names)
            op = replace(node.op, p=0.0) if isinstance(node.op, Attention) else node.op
            rows.append(Read(node.name, op, given, values))
            place = len(rows)
        places[node.name] = place
    return _needed(rows, [places[name] for name in results])


def _place(graph: Graph, node: Node, given: tuple[int, ...], skipped: Collection[str]) -> int | None:
    """Return the place of a result that is another result or 0 in evaluation, or None if it is computed."""
    op, shape = node.op, graph.shapes[node.name]
    is_same = isinstance(op, AnyDropout) or (isinstance(op, Flatten) and len(graph.shapes[node.inputs[0]]) == 1)
    if is_same or node.name in skipped:
        return given[0]
    if isinstance(op, GaussianNoise) and not op.in_evaluation:
        return NOTHING
    if NOTHING not in given:
        return None
    text = op.expression if isinstance(op, Elementwise) else ""
    if isinstance(op, (*VIEWS, Permute, Mul, MulParameter)) or text == "a * b":
        return NOTHING
    if isinstance(op, Add) or text == "a + b":
        kept = given.index(NOTHING) ^ 1
        return given[kept] if graph.shapes[node.inputs[kept]] == shape else None
    return None


def _needed(rows: list[Read], results: list[int]) -> list[Read]:
    """Return the rows on which these places depend, with new places. A place is the number of a row plus 1."""
    wanted = set(results)
    for place in range(len(rows), 0, -1):
        if place in wanted:
            wanted |= set(rows[place - 1].places)
    kept = [place for place in range(1, len(rows) + 1) if place in wanted]
    number = {NOTHING: NOTHING, 0: 0} | {place: at for at, place in enumerate(kept, start=1)}
    return [rows[place - 1]._replace(places=tuple(number[each] for each in rows[place - 1].places)) for place in kept]


def _value(constant: Tensor) -> tuple[Any, ...]:
    return (tuple(constant.shape), constant.numpy().tobytes())


def _told(read: Read | None) -> str:
    return "nothing more" if read is None else f"another {read.op.title}, or one of other values"
