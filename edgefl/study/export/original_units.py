"""A model that was trained on standardised data, as a model of the original data. It has two more layers of fixed
numbers.

    standardise      the first layer: (x - mean) / spread of every feature or channel
    original_units   the last layer, if the targets are numbers: output * spread + mean

Both layers are batch norms with fixed parameters and statistics, so that every format but a state dict of torch takes
them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgefl.experiment.data.scales import Standardisation
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import BatchNorm1d, BatchNorm2d

FIRST, LAST = "standardise", "original_units"
PLANES = 3  # number of extents of an input of images


def in_original_units(model: Model, scales: Standardisation) -> Model:
    """Return the model with inputs and outputs in the units of the data. `model` works on standardised values."""
    graph, params = model.graph, dict(model.params)
    kind = BatchNorm2d if len(graph.input_shape) == PLANES else BatchNorm1d
    spread = np.asarray(scales.spread)
    nodes = [Node(FIRST, kind(graph.input_shape[0]), (INPUT,)), *(_after(node) for node in graph.nodes)]
    params |= _fixed(FIRST, nodes[0].op, np.asarray(scales.mean), 1 / spread, np.zeros(len(spread)))
    if scales.target_mean:
        last = Node(LAST, BatchNorm1d(graph.output_shape[0]), (graph.nodes[-1].name,))
        nodes.append(last)
        mean = np.asarray(scales.target_mean)
        params |= _fixed(LAST, last.op, np.zeros(len(mean)), np.asarray(scales.target_spread), mean)
    whole = Graph(graph.input_shape, tuple(nodes), computed=graph.computed, auxiliary=graph.auxiliary)
    return Model(whole, {name: params[name] for name in whole.parameters()})


def is_in_original_units(graph: Graph) -> bool:
    """Return whether the graph has the layers of this module."""
    return graph.nodes[0].name == FIRST


def _after(node: Node) -> Node:
    """Return the node with the standardised inputs in place of the inputs."""
    return replace(node, inputs=tuple(FIRST if name == INPUT else name for name in node.inputs))


def _fixed(name: str, norm: object, mean: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters with which a batch norm in evaluation computes (x - mean) * weight + bias."""
    assert isinstance(norm, BatchNorm1d | BatchNorm2d)
    parts = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": np.full(len(mean), 1 - norm.eps)}
    return {f"{name}.{part}": value.astype(np.float32) for part, value in parts.items()}
