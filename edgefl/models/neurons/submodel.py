"""The parameters of a smaller model (Graph.sub), cut from the full model and put back in their places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgefl.models.graph import Graph, Params, narrower
from edgefl.models.neurons.block_index import AxisIds, active_axes
from edgefl.models.neurons.gather import parameter
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update


def sub_params(graph: Graph, params: Mapping[str, np.ndarray], neurons: NeuronSet) -> Params:
    """Return copies of the active blocks of `params`, which are the parameters of `graph.sub(neurons)`.

    Raises  GraphError if `params` does not belong to `graph`, SelectionError if `neurons` does not.
    """
    graph.check(params)
    blocks = neurons.blocks_of(graph)
    return {name: _cut(params[name], rows, cols) for name, (rows, cols) in blocks.items()}


def lifted(params: Mapping[str, np.ndarray], spec: ModelSpec, neurons: NeuronSet) -> Update:
    """Return parameters of `graph.sub(neurons)` as blocks of the full model: the inverse of `sub_params`.

    The values are not copied. Frozen parameters are left out, because the full model has them already.
    Raises  ValueError if a parameter is missing or has another shape.
    """
    made: dict[AxisSpec, AxisIds] = {}
    blocks = {}
    for name in spec.exchanged:
        param = spec.params[name]
        index = active_axes(param, spec, neurons.active, neurons.keys, made)
        blocks[name] = Block(param.shape, index, parameter(params, name))
    return Update(blocks)


def _cut(value: np.ndarray, rows: narrower.IdArray | None, cols: narrower.IdArray | None) -> np.ndarray:
    block = value if rows is None else value[rows]
    block = block if cols is None else block[:, cols]
    return np.array(block, order="C")
