"""The torch module of a Graph. trace.py converts in the other direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.cuts import before
from edgefl.models.graph.operations import (
    ELU,
    FIXED_ACTIVATIONS,
    GELU,
    GRU,
    LSTM,
    RNN,
    AdapterSum,
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    Add,
    AddParameter,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BorderPad,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Elementwise,
    Embedding,
    Flatten,
    FlattenPlaces,
    Flip,
    GaussianNoise,
    GlobalAvgPool,
    GroupNorm,
    InputPart,
    Interpolate,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool1d,
    MaxPool2d,
    Mul,
    MulParameter,
    Operation,
    Permute,
    PReLU,
    Reduce,
    ReLU,
    ReLU6,
    Reshape,
    Scaler,
    SelfAttention,
    Shape,
    Slice,
    Softplus,
    StochasticDepth,
    Upsample,
    WithParameter,
    ZeroPad2d,
)
from edgefl.torch.channels_last import (
    ExampleDropout,
    FlattenPositions,
    PackedInput,
    PermuteAxes,
    PositionwiseEmbedding,
    PositionwiseLayerNorm,
    PositionwiseLinear,
    RepeatPositions,
    ReshapeFeatures,
    SlicePositions,
)
from edgefl.torch.computed_tensors import computed_tensors
from edgefl.torch.expression_module import Expression, Reduction
from edgefl.torch.frozen_parameters import freeze
from edgefl.torch.layer_paths import layer_paths
from edgefl.torch.module_tree import attach
from edgefl.torch.resampling_modules import resampling_layer
from edgefl.torch.sequence_modules import SequenceGRU, SequenceLSTM, SequenceRNN, SequenceSelfAttention
from edgefl.torch.training_modules import Noise, TrainingScaler
from edgefl.torch.transformer_modules import KINDS


def to_torch(model: Model) -> GraphModule:
    """Make a torch module in training mode with the graph's architecture and copies of the parameters.

    Frozen parameters have no requires_grad, and a BatchNorm that keeps its running statistics stays in evaluation mode.
    The state_dict has the parameter names of the model, and num_batches_tracked of each BatchNorm.
    model   graph and parameters
    Raises  GraphError if the parameters do not belong to the graph, or if the name of a node cannot be a module's name
            in torch
    """
    model.graph.check(model.params)
    module = GraphModule(model.graph)
    shapes = {name: value.shape for name, value in module.state_dict().items()}
    values = {name: torch.tensor(value).reshape(shapes[name]) for name, value in model.params.items()}
    module.load_state_dict(values, strict=False)  # strict would ask for num_batches_tracked, and check() saw all others
    return module


class Sum(nn.Module):
    """The sum a + b as a module, so that a residual addition keeps its name."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class Product(nn.Module):
    """The product a b as a module, where b may have one value for each plane."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b


class SideBySide(nn.Module):
    """The channels of all inputs, one after another, as a module."""

    def forward(self, *parts: Tensor) -> Tensor:
        return torch.cat(parts, 1)


class MeanOfPlanes(nn.Module):
    """The mean over all axes but samples and channels. The other axes stay with extent 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(tuple(range(2, x.dim())), keepdim=True)


class GraphModule(nn.Module):
    """A module that runs a Graph with torch's modules, which have mostly the names of their nodes (layer_paths.py)."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.edgefl_graph, self._edgefl_paths = graph, layer_paths(graph)
        for node in graph.nodes:
            if isinstance(node.op, WithParameter) and node.full_name("") not in graph.roots:
                start = torch.full((*(1,) * node.op.ones, *node.op.shape), float(isinstance(node.op, MulParameter)))
                attach(self, node.full_name(""), nn.Parameter(start))
        made: set[str] = set()
        for node in graph.nodes:
            path = self._edgefl_paths.get(node.name)
            if path is not None and path not in made:
                attach(self, path, _layer(node.op, graph.shapes[node.inputs[0]]))
                made.add(path)
        self._edgefl_moved = _move_parameters(self)
        for name, info in graph.parameters().items():
            if any(name in sources for sources in graph.roots.values()) and not _has(self, name):
                attach(self, name, nn.Parameter(torch.zeros(info.shape)))
        freeze(self, graph.frozen)
        self.train()

    def edgefl_layer(self, node: Node) -> nn.Module:
        """Return the layer of a node."""
        path = self._edgefl_paths[node.name]
        return self._modules.get(path) or self.get_submodule(path)  # most paths have no dots

    def train(self, mode: bool = True) -> GraphModule:
        """Set the mode as torch does, except for the BatchNorms that keep their running statistics."""
        super().train(mode)
        for node in self.edgefl_graph.nodes:
            if self.edgefl_graph.keeps_statistics(node):
                self.edgefl_layer(node).eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs [batch, *output_shape] for x [batch, *input_shape]. Auxiliary outputs are left out."""
        last = self.edgefl_graph.nodes[-1].name
        nodes = before(self.edgefl_graph, last) if self.edgefl_graph.auxiliary else self.edgefl_graph.nodes
        return self._edgefl_results(x, nodes)[last]

    def edgefl_outputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the output and the auxiliary outputs, in the order of the graph's list."""
        found = self._edgefl_results(x, self.edgefl_graph.nodes)
        names = (self.edgefl_graph.nodes[-1].name, *(each.result for each in self.edgefl_graph.auxiliary))
        return tuple(found[name] for name in names)

    def _edgefl_results(self, x: Tensor, nodes: tuple[Node, ...]) -> dict[str, Tensor]:
        results = {INPUT: x}
        computed = computed_tensors(self.edgefl_graph, partial(_value, self))
        for path, part, full in self._edgefl_moved:
            _bind(self.get_submodule(path), part, computed[full] if full in computed else _value(self, full))
        for node in nodes:
            inputs = [results[name] for name in node.inputs]
            if isinstance(node.op, WithParameter):
                places = len(self.edgefl_graph.shapes[node.name]) - 1
                full = node.full_name("")
                value = computed[full] if full in computed else _value(self, full)
                results[node.name] = _combined(node.op, inputs[0], value, places)
            else:
                results[node.name] = self.edgefl_layer(node)(*inputs)
        return results


def _value(root: nn.Module, name: str) -> Tensor:
    """Return a parameter by its name."""
    path, _, last = name.rpartition(".")
    owner = root.get_submodule(path)
    registered = {**owner._buffers, **owner._parameters}  # what the layer reads under this name may be computed
    found = registered[last]
    assert found is not None
    return found


def _move_parameters(root: GraphModule) -> list[tuple[str, str, str]]:
    """Register the parameters whose full names do not follow from the paths of their layers, and remove computed ones.

    Return for each of them the path, the last part of its name in the layer, and its full name. The layer does not
    have the parameter any more, and gets it before each pass. A shared parameter is registered once.
    """
    graph, found = root.edgefl_graph, dict[tuple[str, str, str], Tensor]()
    for node in graph.nodes:
        path = root._edgefl_paths.get(node.name)
        for part in () if path is None else node.op.parameters():
            full, layer = node.full_name(part), root.edgefl_layer(node)
            for held in (layer._parameters, layer._buffers):
                if (full != f"{path}.{part}" or full in graph.roots) and (value := held.pop(part, None)) is not None:
                    found[str(path), part, full] = value
                    if part == "running_mean":  # the converted module counts batches elsewhere, or not at all
                        layer.register_buffer("num_batches_tracked", None)
    for (_, _, full), value in found.items():
        known = root.state_dict(keep_vars=True).get(full)
        if full in graph.roots:
            continue
        if known is None:
            attach(root, full, value)
        elif known.shape != value.shape:
            shapes = f"{tuple(known.shape)} and {tuple(value.shape)}"
            raise GraphError(f"parameter {full!r} has the shapes {shapes} in torch; expected one shape for all nodes")
    return list(found)


def _bind(layer: nn.Module, part: str, value: Tensor) -> None:
    """Let a layer read a parameter that is registered elsewhere."""
    vars(layer)[part] = value
    if isinstance(layer, nn.RNNBase):
        layer._flat_weights = [getattr(layer, name, None) for name in layer._flat_weights_names]


def _has(root: nn.Module, name: str) -> bool:
    return name in root.state_dict()


def _combined(op: WithParameter, x: Tensor, value: Tensor, places: int) -> Tensor:
    """Return x with a parameter added or multiplied. The parameter is brought to the axes of x.

    places  number of axes of positions that x has
    """
    extents = op.shape if len(op.shape) > 1 else (*op.shape, *(1,) * places)
    value = value.view(extents)
    value = value.movedim(-1, 0) if op.channels_last else value
    return x + value if isinstance(op, AddParameter) else x * value


def _layer(op: Operation, source: Shape) -> nn.Module:
    """Return the module of an operation that reads a result of this shape."""
    if isinstance(op, Linear) and len(source) > 1:
        return PositionwiseLinear(op.in_features, op.out_features, op.bias)
    if isinstance(op, LayerNorm) and len(source) > len(op.normalized_shape):
        return PositionwiseLayerNorm(list(op.normalized_shape), op.eps)
    if isinstance(op, Upsample) and len(source) == 2:
        return RepeatPositions(op.scale_factor[1])
    if isinstance(op, Interpolate | BorderPad | Flip):
        return resampling_layer(op, source)
    return _LAYERS[type(op)](op)


def _conv(op: Conv2d) -> nn.Module:
    geometry = (op.kernel_size, op.stride, op.padding, op.dilation)
    return nn.Conv2d(op.in_channels, op.out_channels, *geometry, groups=op.groups, bias=op.bias)


def _fixed(op: Operation) -> nn.Module:
    """Return the module of an operation without settings, which has the operation's name."""
    module: nn.Module = getattr(nn, op.title)()
    return module


_LAYERS: dict[type[Operation], Callable[[Any], nn.Module]] = {
    Conv2d: _conv,
    Linear: lambda op: nn.Linear(op.in_features, op.out_features, op.bias),
    Conv1d: lambda op: nn.Conv1d(**asdict(op)),
    ConvTranspose2d: lambda op: nn.ConvTranspose2d(**asdict(op)),
    BatchNorm2d: lambda op: nn.BatchNorm2d(op.num_features, op.eps, op.momentum, True, op.track_running_stats),
    BatchNorm1d: lambda op: nn.BatchNorm1d(op.num_features, op.eps, op.momentum, True, op.track_running_stats),
    LayerNorm: lambda op: nn.LayerNorm(op.normalized_shape, op.eps),
    PReLU: lambda op: nn.PReLU(op.num_parameters),
    GELU: lambda op: nn.GELU(op.approximate),
    Softplus: lambda op: nn.Softplus(op.beta, op.threshold),
    MaxPool1d: lambda op: nn.MaxPool1d(**asdict(op)),
    AvgPool1d: lambda op: nn.AvgPool1d(**asdict(op)),
    AdaptiveAvgPool1d: lambda op: nn.AdaptiveAvgPool1d(op.output_size),
    AdaptiveAvgPool2d: lambda op: nn.AdaptiveAvgPool2d(op.output_size),
    Upsample: lambda op: nn.Upsample(scale_factor=op.scale_factor),
    ZeroPad2d: lambda op: nn.ZeroPad2d(op.padding),
    Mul: lambda op: Product(),
    Concat: lambda op: SideBySide(),
    GroupNorm: lambda op: nn.GroupNorm(op.num_groups, op.num_channels, op.eps),
    **dict.fromkeys(FIXED_ACTIVATIONS, _fixed),
    ReLU: _fixed,
    ReLU6: _fixed,
    LeakyReLU: lambda op: nn.LeakyReLU(op.negative_slope),
    ELU: lambda op: nn.ELU(op.alpha),
    MaxPool2d: lambda op: nn.MaxPool2d(**asdict(op)),
    AvgPool2d: lambda op: nn.AvgPool2d(**asdict(op)),
    **{op: lambda op: getattr(nn, op.title)(op.p) for op in (Dropout, Dropout1d, Dropout2d)},
    StochasticDepth: lambda op: ExampleDropout(op.p),
    GlobalAvgPool: lambda op: MeanOfPlanes(),
    Embedding: lambda op: PositionwiseEmbedding(op.num_embeddings, op.embedding_dim, op.padding_idx),
    Flatten: lambda op: nn.Flatten(),
    FlattenPlaces: lambda op: FlattenPositions(),
    Permute: lambda op: PermuteAxes(op.axes),
    Reshape: lambda op: ReshapeFeatures(op.places),
    InputPart: lambda op: PackedInput(op.start, op.shape),
    Slice: lambda op: SlicePositions(op.start, op.length),
    RNN: SequenceRNN.of,
    GRU: lambda op: SequenceGRU(op.input_size, op.hidden_size, bias=op.bias, batch_first=True),
    LSTM: lambda op: SequenceLSTM(op.input_size, op.hidden_size, bias=op.bias, batch_first=True),
    SelfAttention: SequenceSelfAttention,
    **{op: kind for kind, op in KINDS},
    Add: lambda op: Sum(),
    Elementwise: Expression,
    AdapterSum: Expression,
    Reduce: Reduction,
    Scaler: TrainingScaler,
    GaussianNoise: Noise,
}
