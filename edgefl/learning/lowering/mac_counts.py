"""The multiply-accumulates that an exact training step needs, layer by layer: what no kernel can beat by skipping work.

Counted are convolutions and Linear layers, per example; others that multiply (recurrent layers, attention) are not. The
forward pass is whole. The gradient of a layer's input is counted where something below is trained: not for the first
layer, for the active channels only just above it (whole groups under GroupNorm), else in full. The gradient of the
weights is counted for the active rows and columns. Neuron counts are floors, so the bound is no formula in p. Source:
FedSPU Eq. 4.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.learning.lowering.active_ids import trained_blocks
from edgefl.learning.lowering.channel_sets import NONE
from edgefl.learning.lowering.gradient_needs import gradient_needs
from edgefl.learning.lowering.schedule import Index
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet


class LayerMacs(NamedTuple):
    """MACs of one layer for one example, and the active channels of each product; None selects all."""

    forward: int
    grad_input: int
    grad_weight: int
    inputs: Index  # channels whose gradient is needed; empty: none
    rows: Index
    cols: Index

    @property
    def step(self) -> int:
        """All three products."""
        return self.forward + self.grad_input + self.grad_weight


def layer_macs(graph: Graph, neurons: NeuronSet | None = None) -> dict[str, LayerMacs]:
    """Every convolution and Linear node, in order; `neurons` are trained (None: all)."""
    blocks = trained_blocks(ModelSpec.of(graph), neurons)
    needs = gradient_needs(graph, blocks, "exact")
    parameters = graph.parameters()
    result = {}
    for node in graph.nodes:
        macs = graph.macs().get(node.name)
        if macs and f"{node.name}.weight" in parameters:
            below = node.inputs[0]
            inputs = needs.get(below, NONE)
            out, into = parameters[f"{node.name}.weight"].shape[:2]
            rows, cols = blocks.get(f"{node.name}.weight", (NONE, NONE))
            grad_input = macs * _size(inputs, graph.shapes[below][0]) // graph.shapes[below][0]
            grad_weight = macs * _size(rows, out) * _size(cols, into) // (out * into)
            result[node.name] = LayerMacs(macs, grad_input, grad_weight, inputs, rows, cols)
    return result


def step_macs(graph: Graph, neurons: NeuronSet | None = None) -> int:
    """MACs of a training step on one example."""
    return sum(layer.step for layer in layer_macs(graph, neurons).values())


def _size(ids: Index, extent: int) -> int:
    return extent if ids is None else len(ids)
