"""The parameters of a smaller model: those of Graph.sub, cut from the full ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgefl.graph import Graph, Params
from edgefl.neurons.selection import Ids, NeuronSet


def sub_params(graph: Graph, params: Mapping[str, np.ndarray], neurons: NeuronSet) -> Params:
    """Copies of the active blocks of `params`: the parameters of `graph.sub(neurons)`.

    Raises  GraphError if `params` does not belong to `graph`, SelectionError if `neurons` does not.
    """
    graph.check(params)
    blocks = neurons.blocks_of(graph)
    return {name: _cut(params[name], rows, cols) for name, (rows, cols) in blocks.items()}


def _cut(value: np.ndarray, rows: Ids | None, cols: Ids | None) -> np.ndarray:
    block = value if rows is None else value[rows]
    block = block if cols is None else block[:, cols]
    return np.array(block, order="C")
