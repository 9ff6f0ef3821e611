"""Modules made of parts of another module: the body under another head, the head alone, or either side of a cut.

They share the parameters as torch objects, and no values are read here.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Graph
from edgefl.models.graph.heads import features_of, head_of, with_classes
from edgefl.models.neurons.model_spec import ModelSpec, layer_of
from edgefl.torch.channels_last import PositionwiseLinear
from edgefl.torch.graph_module import GraphModule
from edgefl.torch.module_tree import attach
from edgefl.torch.parameter_arrays import ModuleParameters


class Alone(nn.Module):
    """A module of one layer, under the name that the layer has in the whole model."""

    def __init__(self, name: str, layer: nn.Module) -> None:
        super().__init__()
        self._name = name
        attach(self, name, layer)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.get_submodule(self._name)(x)
        return result


def last_linear(module: nn.Module, spec: ModelSpec) -> nn.Linear:
    """Return the layer with which the head begins. Raises GraphError if there is no such Linear layer."""
    found = module.get_submodule(layer_of(spec.head[0])) if spec.head else None
    if not isinstance(found, nn.Linear):
        raise GraphError(f"head of {type(module).__name__}: {found}; expected a Linear layer")
    return found


def under_head(module: nn.Module, held: ModuleParameters, spec: ModelSpec, classes: int) -> nn.Module:
    """Return the module with another last Linear layer, which is zero. All other parameters are shared.

    Raises  GraphError if a layer with parameters follows the last Linear layer, or if there is no Linear layer.
    """
    last, name = last_linear(module, spec), layer_of(spec.head[0])
    if any(layer_of(parameter) != name for parameter in spec.head):
        raise GraphError(f"head {', '.join(spec.head)}; expected a Linear layer as the last node")
    kind = PositionwiseLinear if isinstance(last, PositionwiseLinear) else nn.Linear
    own = kind(last.in_features, classes, last.bias is not None, last.weight.device, last.weight.dtype)
    for parameter in own.parameters():
        nn.init.zeros_(parameter)
    shared = {id(tensor): tensor for key, tensor in held.tensors.items() if key not in spec.head}
    twin = deepcopy(module, shared)
    twin.set_submodule(name, own)
    return twin


def part(held: ModuleParameters, spec: ModelSpec, graph: Graph) -> tuple[Graph, ModelSpec, nn.Module]:
    """Return some nodes of the model as a graph of their own, with its specification and its torch form.

    The torch form shares the parameters of the model.
    """
    own = GraphModule(graph)
    for name in graph.parameters():
        layer, _, last = name.rpartition(".")
        setattr(own.get_submodule(layer), last, held.tensors[name])
    return graph, spec.part(graph), own


def cut_with_places(graph: Graph | None) -> str:
    """Return the name of the result that the last Linear layer reads, if the outputs have places, or else ""."""
    return features_of(graph) if graph is not None and len(graph.output_shape) > 1 else ""


def spec_under_head(graph: Graph | None, spec: ModelSpec, classes: int) -> tuple[Graph | None, ModelSpec]:
    """Return the graph and the specification of the model with `classes` outputs."""
    if graph is not None:
        resized = with_classes(graph, classes)
        return resized, ModelSpec.of(resized)
    own = {name: spec.params[name]._replace(shape=(classes, *spec.params[name].shape[1:])) for name in spec.head}
    return None, replace(spec, params={**spec.params, **own})


def head_alone(
    module: nn.Module, held: ModuleParameters, graph: Graph | None, spec: ModelSpec
) -> tuple[Graph | None, ModelSpec, nn.Module]:
    """Return the last Linear layer and the nodes after it, which share the parameters of the model.

    The result is their graph, if the model has one, their specification and their module.
    Raises  GraphError if there is no Linear layer.
    """
    if graph is not None:
        return part(held, spec, head_of(graph))
    linear, name = last_linear(module, spec), layer_of(spec.head[0])
    own = replace(spec, params={key: spec.params[key]._replace(cols=None) for key in spec.head}, groups={})
    return None, own, Alone(name, linear)
