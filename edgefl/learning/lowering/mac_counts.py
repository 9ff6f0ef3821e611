"""The multiply-accumulates that an exact training step needs, layer by layer. No kernel can do less by skipping work.

Convolutions and Linear layers are counted, per example. Other layers that multiply (recurrent layers, attention) are
not counted. The forward pass is counted as a whole. The gradient of a layer's input is counted where something below is
trained. So it is not counted for the first layer. Directly above the first layer it is counted for the active channels
only (whole groups under GroupNorm), and elsewhere in full. The gradient of the weights is counted for the active rows
and columns. Neuron counts are rounded down, so the count is not a formula in p.

Source  FedSPU Eq. 4
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
    """The multiply-accumulates of one layer for one example, and the active channels of each product.

    A list of channels that is None selects all channels.
    """

    forward: int
    grad_input: int
    grad_weight: int
    inputs: Index  # channels whose gradient is needed
    rows: Index
    cols: Index

    @property
    def step(self) -> int:
        """The sum of all three products."""
        return self.forward + self.grad_input + self.grad_weight


def layer_macs(graph: Graph, neurons: NeuronSet | None = None) -> dict[str, LayerMacs]:
    """Return the counts of every convolution and Linear node, in order, where `neurons` are trained (None: all)."""
    blocks = trained_blocks(ModelSpec.of(graph), neurons)
    needs = gradient_needs(graph, blocks, "exact")
    result = {}
    for node in graph.nodes:
        macs = graph.macs().get(node.name)
        if macs and "weight" in node.op.parameters():
            below = node.inputs[0]
            inputs = needs.get(below, NONE)
            out, into = node.op.parameters()["weight"].shape[:2]
            rows, cols = blocks.get(node.full_name("weight"), (NONE, NONE))
            grad_input = macs * _size(inputs, graph.shapes[below][0]) // graph.shapes[below][0]
            grad_weight = macs * _size(rows, out) * _size(cols, into) // (out * into)
            result[node.name] = LayerMacs(macs, grad_input, grad_weight, inputs, rows, cols)
    return result


def step_macs(graph: Graph, neurons: NeuronSet | None = None) -> int:
    """Return the multiply-accumulates of a training step on one example."""
    return sum(layer.step for layer in layer_macs(graph, neurons).values())


def _size(ids: Index, extent: int) -> int:
    return extent if ids is None else len(ids)
