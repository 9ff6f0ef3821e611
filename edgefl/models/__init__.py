"""Models as values: the operations and parameters of a network, and which of its weights belong to which neurons.

adapters  low-rank adapters of layers
graph     the architecture as typed operations, its JSON, model files and built-in architectures
neurons   neuron groups, sets of active neurons, masks, and the part of a model that a message carries

The arithmetic of training is in the room learning, torch is in the room torch, and bytes of messages are in protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgefl import _lazily

if TYPE_CHECKING:
    from edgefl.models.adapters.adapter_merging import merge_adapters
    from edgefl.models.adapters.low_rank import LowRankAdapter, adapters_of, add_adapters
    from edgefl.models.graph import Graph, Model, Node, Params
    from edgefl.models.graph.quantization import dequantize, quantize_frozen, quantize_model
    from edgefl.models.neurons.gather import put, take
    from edgefl.models.neurons.mask import Mask
    from edgefl.models.neurons.model_spec import ModelSpec
    from edgefl.models.neurons.neuron_set import NeuronSet
    from edgefl.models.neurons.update import Block, Update, values

EXPORTS = {  # public name -> the module that defines it, which is imported when the name is first asked for
    "Block": "edgefl.models.neurons.update",
    "Graph": "edgefl.models.graph",
    "LowRankAdapter": "edgefl.models.adapters.low_rank",
    "Mask": "edgefl.models.neurons.mask",
    "Model": "edgefl.models.graph",
    "ModelSpec": "edgefl.models.neurons.model_spec",
    "NeuronSet": "edgefl.models.neurons.neuron_set",
    "Node": "edgefl.models.graph",
    "Params": "edgefl.models.graph",
    "Update": "edgefl.models.neurons.update",
    "add_adapters": "edgefl.models.adapters.low_rank",
    "adapters_of": "edgefl.models.adapters.low_rank",
    "dequantize": "edgefl.models.graph.quantization",
    "merge_adapters": "edgefl.models.adapters.adapter_merging",
    "put": "edgefl.models.neurons.gather",
    "quantize_frozen": "edgefl.models.graph.quantization",
    "quantize_model": "edgefl.models.graph.quantization",
    "take": "edgefl.models.neurons.gather",
    "values": "edgefl.models.neurons.update",
}


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, EXPORTS)


__all__ = [
    "Block",
    "Graph",
    "LowRankAdapter",
    "Mask",
    "Model",
    "ModelSpec",
    "NeuronSet",
    "Node",
    "Params",
    "Update",
    "adapters_of",
    "add_adapters",
    "dequantize",
    "merge_adapters",
    "put",
    "quantize_frozen",
    "quantize_model",
    "take",
    "values",
]
