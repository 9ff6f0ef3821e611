"""The merging of low-rank adapters into the weights of their layers: the model has its nodes of before again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.adapters.low_rank import DOWN, SUM, UP, LowRankAdapter, adapters_of, root_of
from edgefl.models.graph.graph import Graph, Model
from edgefl.models.graph.operations import Embedding


def merge_adapters(model: Model) -> Model:
    """Return the model without adapters, which computes the same up to rounding: each weight W is W + (alpha / r) B A.

    Products are summed in float64. Parameters that the adapters' model froze are frozen no more, except constants.
    Raises  GraphError if the model has no adapter
    """
    adapters = adapters_of(model.graph)
    if not adapters:
        raise GraphError("the model has no adapter; expected one that add_adapters has made")
    params = {name: value for name, value in model.params.items() if not _is_of(name, adapters)}
    for each in adapters:
        name, change = change_of(model, each)
        params[name] = (params[name] + change).astype(np.float32)
    graph = without_adapters(model.graph, adapters)
    return model._replace(graph=graph, params={name: params[name] for name in graph.parameters()})


def change_of(model: Model, adapter: LowRankAdapter) -> tuple[str, np.ndarray]:
    """Return the full name of the parameter that an adapter changes, and the change in float64 in its shape."""
    node = next(each for each in model.graph.nodes if each.name == adapter.node)
    name = root_of(model.graph, node)
    assert name is not None  # add_adapters takes no other layer
    down, up = (model.params[each].astype(np.float64) for each in (adapter.down, adapter.up))
    if isinstance(node.op, Embedding):
        return name, adapter.scale * (down @ up.T)
    product = adapter.scale * (up.reshape(up.shape[0], -1) @ down.reshape(down.shape[0], -1))
    if name != node.full_name("weight"):  # a transposed weight
        product = product.T
    return name, product.reshape(model.params[name].shape)


def without_adapters(graph: Graph, adapters: tuple[LowRankAdapter, ...]) -> Graph:
    """Return the graph in which the layers' own results are read again. Constants stay frozen, and nothing else."""
    results = {f"{each.module}{SUM}": each.node for each in adapters}
    gone = {f"{each.module}{end}" for each in adapters for end in (DOWN, UP, SUM)}
    nodes = tuple(
        replace(node, inputs=tuple(results.get(name, name) for name in node.inputs))
        for node in graph.nodes
        if node.name not in gone
    )
    auxiliary = tuple(replace(each, result=results.get(each.result, each.result)) for each in graph.auxiliary)
    return replace(graph, nodes=nodes, auxiliary=auxiliary, frozen=graph.constants)


def _is_of(name: str, adapters: tuple[LowRankAdapter, ...]) -> bool:
    return any(name in (each.down, each.up) for each in adapters)
