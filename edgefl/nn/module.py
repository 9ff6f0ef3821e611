"""A Graph as a torch module: the way back from trace.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.graph import INPUT, Graph, Model
from edgefl.graph.operations import (
    Add,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Operation,
    ReLU,
)


def to_torch(model: Model) -> GraphModule:
    """A torch module in training mode with the graph's architecture and copies of its parameters.

    Its state_dict has the model's parameter names, and num_batches_tracked of each BatchNorm beside them.
    Raises  GraphError if the parameters do not belong to the graph, or a node's name cannot be a module's in torch.
    """
    model.graph.check(model.params)
    module = GraphModule(model.graph)
    values = {name: torch.tensor(value) for name, value in model.params.items()}
    module.load_state_dict(values, strict=False)  # strict would ask for num_batches_tracked; check() saw all others
    return module


class Sum(nn.Module):
    """a + b as a module, so that a residual addition keeps its name."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class GraphModule(nn.Module):
    """Runs a Graph with torch's modules; each node is the submodule of the same dotted name."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.edgefl_graph = graph
        for node in graph.nodes:
            _attach(self, node.name, _LAYERS[type(node.op)](node.op))

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, *input_shape] -> [batch, *output_shape]"""
        results = {INPUT: x}
        for node in self.edgefl_graph.nodes:
            results[node.name] = self.get_submodule(node.name)(*(results[name] for name in node.inputs))
        return results[node.name]


def _conv(op: Conv2d) -> nn.Module:
    geometry = (op.kernel_size, op.stride, op.padding, op.dilation)
    return nn.Conv2d(op.in_channels, op.out_channels, *geometry, groups=op.groups, bias=op.bias)


_LAYERS: dict[type[Operation], Callable[[Any], nn.Module]] = {
    Conv2d: _conv,
    Linear: lambda op: nn.Linear(op.in_features, op.out_features, op.bias),
    BatchNorm2d: lambda op: nn.BatchNorm2d(op.num_features, op.eps, op.momentum),
    GroupNorm: lambda op: nn.GroupNorm(op.num_groups, op.num_channels, op.eps),
    ReLU: lambda op: nn.ReLU(),
    LeakyReLU: lambda op: nn.LeakyReLU(op.negative_slope),
    MaxPool2d: lambda op: nn.MaxPool2d(op.kernel_size, op.stride, op.padding),
    AvgPool2d: lambda op: nn.AvgPool2d(op.kernel_size, op.stride, op.padding, count_include_pad=op.count_include_pad),
    GlobalAvgPool: lambda op: nn.AdaptiveAvgPool2d(1),
    Flatten: lambda op: nn.Flatten(),
    Add: lambda op: Sum(),
}


def _attach(root: nn.Module, name: str, layer: nn.Module) -> None:
    """Make `layer` reachable from `root` under the dotted `name`, keeping what is already there."""
    *path, last = name.split(".")
    parent = root
    try:
        for part in path:
            if part not in parent._modules:
                parent.add_module(part, nn.Module())
            parent = parent.get_submodule(part)
        _keep_children(parent._modules.get(last), layer)
        parent._modules.pop(last, None)
        parent.add_module(last, layer)
    except KeyError as error:  # torch's way to say that an attribute of that name exists
        raise GraphError(f"node {name!r} cannot be a torch module: {error.args[0]}") from None


def _keep_children(placeholder: nn.Module | None, layer: nn.Module) -> None:
    """A node may come after nodes whose names continue its own: hand their modules over."""
    for name, child in placeholder.named_children() if placeholder else ():
        layer.add_module(name, child)
