"""The values of a graph's input that are ids: rows that an Embedding looks up. No samples are checked here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.models.graph.graph import INPUT, Graph
from edgefl.models.graph.operations import Embedding, InputPart


class IdValues(NamedTuple):
    """The values from `start` to `stop`, without `stop`, of the flattened input, which are ids below `rows`."""

    start: int
    stop: int
    rows: int


def id_values(graph: Graph) -> tuple[IdValues, ...]:
    """Return the parts of the input that are ids, in the order of the parts. An input of ids alone is one part."""
    parts = {node.name: node.op for node in graph.nodes if isinstance(node.op, InputPart)}
    found: dict[tuple[int, int], int] = {}
    for node in graph.nodes:
        if isinstance(node.op, Embedding):
            part = parts.get(node.inputs[0])
            at = (0, int(np.prod(graph.shapes[INPUT]))) if part is None else (part.start, part.stop)
            found[at] = min(found.get(at, node.op.num_embeddings), node.op.num_embeddings)
    return tuple(IdValues(*at, rows) for at, rows in sorted(found.items()))


def with_ids(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    """Return the samples with ids where the graph reads ids: the whole part of |100 x|, modulo the number of rows."""
    flat = x.reshape(len(x), -1).copy()
    for start, stop, rows in id_values(graph):
        flat[:, start:stop] = np.floor(np.abs(100 * flat[:, start:stop])) % rows
    return flat.reshape(x.shape)
