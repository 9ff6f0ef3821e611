"""The comparison of a module in training with the module in evaluation, by the graphs of both modes.

Dropout and batch statistics are known differences: the engine follows them. Every other difference is refused, because
training would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from torch import Tensor

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph
from edgefl.models.graph.operations import AnyDropout

Row = tuple[Any, ...]
Values = Mapping[str, Tensor]


def check_modes(training: Graph, evaluation: Graph, constants: Values, others: Values) -> None:
    """Raise GraphError unless the graphs of both modes agree but for dropouts.

    constants, others  values of the frozen parameters that are constants of forward in training, and in evaluation
    """
    pairs = zip_longest(_rows(training, constants), _rows(evaluation, others))
    for one, other in pairs:
        if one != other:
            raise GraphError(
                f"in training mode forward computes {_told(one)}, and in evaluation mode {_told(other)}; expected "
                "dropouts and BatchNorms as the only differences, and no further outputs in training"
            )


def _rows(graph: Graph, constants: Values) -> list[Row]:
    """Return each operation with what it reads, without names of results and without dropouts."""
    places: dict[str, int] = {INPUT: 0}
    rows: list[Row] = []
    for node in graph.nodes:
        if isinstance(node.op, AnyDropout):
            places[node.name] = places[node.inputs[0]]
            continue
        names = [node.full_name(part) for part in node.op.parameters()]
        values = tuple(_value(constants[name]) if name in constants else name for name in names)
        rows.append((node.op, tuple(places[name] for name in node.inputs), values))
        places[node.name] = len(rows)
    return rows


def _value(constant: Tensor) -> tuple[Any, ...]:
    return (tuple(constant.shape), constant.numpy().tobytes())


def _told(row: Row | None) -> str:
    return "nothing more" if row is None else f"another {row[0].title}, or one of other values"
