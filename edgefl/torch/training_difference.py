"""The comparison of a module in training with the module in evaluation, by the graphs of both modes.

Dropout and batch statistics are known differences: the engine follows them. Every other difference is refused, because
training would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Protocol

from torch import Tensor

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph
from edgefl.models.graph.cuts import before
from edgefl.models.graph.operations import AnyDropout, Attention, Flatten

Row = tuple[Any, ...]
Values = Mapping[str, Tensor]


class ConvertedMode(Protocol):
    """A module converted in one mode: its graph, its constants, and the names of its outputs."""

    @property
    def graph(self) -> Graph: ...
    @property
    def constants(self) -> dict[str, Tensor]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...


def check_modes(training: ConvertedMode, evaluation: ConvertedMode) -> None:
    """Raise GraphError unless the graphs of both modes agree but for dropouts, in the outputs that both modes have."""
    shared = [True, *(name in evaluation.outputs[1:] for name in training.outputs[1:])]
    names = _results(training.graph)
    results = {name for name, is_shared in zip(names, shared, strict=True) if is_shared}
    pairs = zip_longest(
        _rows(training.graph, training.constants, results),
        _rows(evaluation.graph, evaluation.constants, set(_results(evaluation.graph))),
    )
    for one, other in pairs:
        if one != other:
            raise GraphError(
                f"in training mode forward computes {_told(one)}, and in evaluation mode {_told(other)}; expected "
                "dropouts and BatchNorms as the only differences, and no further outputs in training"
            )


def _results(graph: Graph) -> tuple[str, ...]:
    """Return the names of the output and of the auxiliary outputs."""
    return (graph.nodes[-1].name, *(each.result for each in graph.auxiliary))


def _rows(graph: Graph, constants: Values, results: set[str]) -> list[Row]:
    """Return each operation before these results with what it reads, without names of results and without dropouts.

    A Flatten of features changes nothing. It stands at an output that the graph also reads.
    """
    needed = {node.name for name in results for node in before(graph, name)}
    places: dict[str, int] = {INPUT: 0}
    rows: list[Row] = []
    for node in graph.nodes:
        if node.name not in needed:
            continue
        if isinstance(node.op, AnyDropout) or (isinstance(node.op, Flatten) and len(graph.shapes[node.inputs[0]]) == 1):
            places[node.name] = places[node.inputs[0]]
            continue
        names = [node.full_name(part) for part in node.op.parameters()]
        values = tuple(_value(constants[name]) if name in constants else name for name in names)
        op = replace(node.op, p=0.0) if isinstance(node.op, Attention) else node.op
        rows.append((op, tuple(places[name] for name in node.inputs), values))
        places[node.name] = len(rows)
    return rows


def _value(constant: Tensor) -> tuple[Any, ...]:
    return (tuple(constant.shape), constant.numpy().tobytes())


def _told(row: Row | None) -> str:
    return "nothing more" if row is None else f"another {row[0].title}, or one of other values"
