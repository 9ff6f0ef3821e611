"""The reach of the gradient in a model with selected neurons: below the first trained layers no gradient is needed, and
just above them the active channels' alone. The input of the model must not have a gradient. Source: ALGORITHMS 1.2.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from edgefl.learning.lowering.active_ids import trained_blocks
from edgefl.learning.lowering.channel_sets import NONE, is_empty
from edgefl.learning.lowering.gradient_needs import gradient_needs
from edgefl.models.graph import Graph, Node
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch.conversion import PLAIN
from edgefl.torch.layer_selection import ActiveChannels, Reach
from edgefl.torch.native_block import NativeBatchNorm2d, NativeGroupNorm
from edgefl.torch.native_convolution import NativeConv2d
from edgefl.torch.native_linear import NativeLinear

LAYERS = (NativeBatchNorm2d, NativeConv2d, NativeGroupNorm, NativeLinear)


def shorten(model: nn.Module, graph: Graph, chosen: NeuronSet) -> None:
    """Tells every converted layer which channels of its input need a gradient. Nothing, where a first layer is not
    converted and so could not say whether the model's input has one.
    """
    needs = gradient_needs(graph, trained_blocks(ModelSpec.of(graph), chosen), "exact")
    layers = {node: model.get_submodule(node.name) for node in graph.nodes if node.op.parameters()}
    first = {node for node in layers if is_empty(needs.get(node.inputs[0], NONE))}
    if not all(isinstance(layers[node], NativeConv2d) for node in first):
        return
    reach = Reach()
    for node, layer in layers.items():
        if isinstance(layer, LAYERS) and type(layer) in PLAIN:
            _tell(layer, node, ActiveChannels(needed=needs.get(node.inputs[0]), reach=reach, is_first=node in first))


def _tell(layer: Any, node: Node, found: ActiveChannels) -> None:
    known: ActiveChannels = layer.edgefl_active
    layer.edgefl_active = found._replace(outs=known.outs, ins=known.ins)
