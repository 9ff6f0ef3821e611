"""The reach of the gradient in a model with selected neurons.

No gradient is needed below the first trained layers, and just above them only the gradient of active channels. The
input of the model must not have a gradient. The rule is stated in docs/algorithms.md section 1.2.
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
from edgefl.torch.layer_paths import module_path
from edgefl.torch.layer_selection import ActiveChannels, Reach
from edgefl.torch.native_block import NativeBatchNorm2d, NativeGroupNorm
from edgefl.torch.native_convolution import NativeConv2d
from edgefl.torch.native_linear import NativeLinear

LAYERS = (NativeBatchNorm2d, NativeConv2d, NativeGroupNorm, NativeLinear)


def shorten(model: nn.Module, graph: Graph, chosen: NeuronSet) -> None:
    """Tell every converted layer which channels of its input need a gradient.

    Nothing is told if one of the first layers is not a converted convolution, because such a layer could not say
    whether the input of the model has a gradient. Nothing is told either if nodes share parameters, because a layer
    that is called twice may have two answers.
    """
    if graph.shared:
        return
    needs = gradient_needs(graph, trained_blocks(ModelSpec.of(graph), chosen), "exact")
    layers = {node: model.get_submodule(module_path(node)) for node in graph.nodes if node.op.parameters()}
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
