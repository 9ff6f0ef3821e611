"""The table MODULES: the graph operations for each torch module that edgefl can take, by the module's type.

An entry raises GraphError that names the argument that edgefl cannot represent. nn.Flatten and nn.Unflatten mean the
functions of their names, which are in shape_table.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    ELU,
    FIXED_ACTIVATIONS,
    GELU,
    GRU,
    LSTM,
    RNN,
    Add,
    AnyDropout,
    BatchNorm1d,
    BatchNorm2d,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Elementwise,
    Embedding,
    FlattenPlaces,
    Flip,
    GlobalAvgPool,
    GroupNorm,
    InputPart,
    LayerNorm,
    LeakyReLU,
    Linear,
    Mul,
    Operation,
    Pair,
    Permute,
    PReLU,
    Reduce,
    ReLU,
    ReLU6,
    Reshape,
    Slice,
    Softplus,
    StochasticDepth,
    Upsample,
    ZeroPad2d,
)
from edgefl.torch.axis_order import first, last
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
from edgefl.torch.expression_module import Expression, Reduction
from edgefl.torch.graph_module import (
    MeanOfPlanes,
    Product,
    SequenceGRU,
    SequenceLSTM,
    SequenceRNN,
    SequenceSelfAttention,
    SideBySide,
    Sum,
)
from edgefl.torch.resampling_modules import FlipPositions
from edgefl.torch.traced_call import (
    Fitting,
    ModuleSemantics,
    adaptive_max_pool,
    adaptive_pool,
    adaptive_pool_sequence,
    avg_pool,
    avg_pool_sequence,
    border_pad,
    dropout,
    expect,
    interpolation,
    max_pool,
    max_pool_sequence,
    pair,
)
from edgefl.torch.transformer_modules import KINDS


def _conv(module: nn.Conv2d) -> tuple[Operation, ...]:
    expect("padding_mode", module.padding_mode, "zeros")
    kernel, dilation = pair(module.kernel_size), pair(module.dilation)
    before, after = _padding(module.padding, kernel, dilation)
    padding, room = (before, ()) if before == after else ((0, 0), (_around(before, after),))
    geometry = (kernel, pair(module.stride), padding, dilation)
    bias = module.bias is not None
    return (*room, Conv2d(module.in_channels, module.out_channels, *geometry, groups=module.groups, bias=bias))


def _fixed(op: Operation) -> Callable[[Any], tuple[Operation, ...]]:
    """Return the meaning of a module without settings."""
    return lambda module: (op,)


def _padding(padding: Any, kernel: Pair, dilation: Pair) -> tuple[Pair, Pair]:
    """Return the numbers of zeros before and after each axis.

    If 'same' needs an odd number, the larger half comes after.
    """
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding != "same":
        return pair(padding), pair(padding)
    total = [apart * (cells - 1) for cells, apart in zip(kernel, dilation, strict=True)]
    before = (total[0] // 2, total[1] // 2)
    return before, (total[0] - before[0], total[1] - before[1])


def _around(before: Pair, after: Pair) -> ZeroPad2d:
    return ZeroPad2d((before[1], after[1], before[0], after[0]))


def _conv1d(module: nn.Conv1d) -> tuple[Operation, ...]:
    expect("padding_mode", module.padding_mode, "zeros")
    (kernel,), (stride,), (dilation,) = module.kernel_size, module.stride, module.dilation
    (_, before), (_, after) = _padding(module.padding, (1, kernel), (1, dilation))
    if before != after:
        raise GraphError(f"padding={module.padding!r} of kernel_size={kernel}; expected an odd kernel")
    settings = (kernel, stride, before, dilation, module.groups, module.bias is not None)
    return (Conv1d(module.in_channels, module.out_channels, *settings),)


def _conv_transpose(module: nn.ConvTranspose2d) -> tuple[Operation, ...]:
    op = ConvTranspose2d(
        module.in_channels,
        module.out_channels,
        pair(module.kernel_size),
        pair(module.stride),
        pair(module.padding),
        pair(module.output_padding),
        module.groups,
        module.bias is not None,
        pair(module.dilation),
    )
    return (op,)


def _linear(module: nn.Linear) -> tuple[Operation, ...]:
    return (Linear(module.in_features, module.out_features, module.bias is not None),)


def _batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d) -> tuple[Operation, ...]:
    expect("affine", module.affine, True)
    tracks, momentum = module.running_mean is not None, module.momentum
    if momentum is None and tracks:
        raise GraphError("momentum=None; expected a float")
    kind = BatchNorm2d if isinstance(module, nn.BatchNorm2d) else BatchNorm1d
    return (kind(module.num_features, float(module.eps), 0.1 if momentum is None else float(momentum), tracks),)


def _group_norm(module: nn.GroupNorm) -> tuple[Operation, ...]:
    expect("affine", module.affine, True)
    return (GroupNorm(module.num_groups, module.num_channels, float(module.eps)),)


def _layer_norm(module: nn.LayerNorm) -> tuple[Operation, ...]:
    expect("elementwise_affine", module.elementwise_affine, True)
    expect("bias", module.bias is not None, True)
    return (LayerNorm(tuple(module.normalized_shape), float(module.eps)),)


def _max_pool1d(module: nn.MaxPool1d) -> tuple[Operation, ...]:
    return (max_pool_sequence(module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode,
                          module.return_indices),)  # fmt: skip


def _avg_pool1d(module: nn.AvgPool1d) -> tuple[Operation, ...]:
    return (avg_pool_sequence(module.kernel_size, module.stride, module.padding, module.ceil_mode,
                          module.count_include_pad),)  # fmt: skip


def _upsample(module: nn.Upsample) -> tuple[Operation, ...] | Fitting:
    recomputes = module.recompute_scale_factor
    return interpolation(module.size, module.scale_factor, module.mode, module.align_corners, recomputes)


def _border_pad(mode: str) -> Callable[[Any], tuple[Operation, ...]]:
    return lambda module: (border_pad(module.padding, mode),)


def _embedding(module: nn.Embedding) -> ModuleSemantics:
    expect("max_norm", module.max_norm, None)
    expect("sparse", module.sparse, False)
    expect("scale_grad_by_freq", module.scale_grad_by_freq, False)
    return ModuleSemantics((Embedding(module.num_embeddings, module.embedding_dim, module.padding_idx),), first, last)


def _dropout(kind: type[AnyDropout]) -> Callable[[Any], tuple[Operation, ...]]:
    return lambda module: dropout(kind, module.p if module.training else 0.0)


def _max_pool_module(module: nn.MaxPool2d) -> tuple[Operation, ...]:
    return (max_pool(module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode,
                      module.return_indices),)  # fmt: skip


def _avg_pool_module(module: nn.AvgPool2d) -> tuple[Operation, ...]:
    return (avg_pool(module.kernel_size, module.stride, module.padding, module.ceil_mode, module.count_include_pad,
                      module.divisor_override),)  # fmt: skip


MODULES: dict[type[nn.Module], Callable[[Any], tuple[Operation, ...] | Fitting | ModuleSemantics]] = {
    nn.Conv2d: _conv,
    nn.Conv1d: _conv1d,
    nn.ConvTranspose2d: _conv_transpose,
    nn.Linear: _linear,
    nn.Embedding: _embedding,
    nn.BatchNorm2d: _batch_norm,
    nn.BatchNorm1d: _batch_norm,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    nn.ReLU: lambda module: (ReLU(),),
    nn.LeakyReLU: lambda module: (LeakyReLU(float(module.negative_slope)),),
    nn.ELU: lambda module: (ELU(float(module.alpha)),),
    nn.ReLU6: lambda module: (ReLU6(),),
    nn.PReLU: lambda module: (PReLU(module.num_parameters),),
    **{getattr(nn, op.__name__): _fixed(op()) for op in FIXED_ACTIVATIONS},
    nn.GELU: lambda module: (GELU(module.approximate),),
    nn.Softplus: lambda module: (Softplus(float(module.beta), float(module.threshold)),),
    nn.MaxPool2d: _max_pool_module,
    nn.AvgPool2d: _avg_pool_module,
    nn.MaxPool1d: _max_pool1d,
    nn.AvgPool1d: _avg_pool1d,
    nn.AdaptiveAvgPool1d: lambda module: (adaptive_pool_sequence(module.output_size),),
    nn.AdaptiveMaxPool1d: lambda module: adaptive_max_pool(module.output_size, module.return_indices),
    nn.AdaptiveMaxPool2d: lambda module: adaptive_max_pool(module.output_size, module.return_indices),
    nn.Upsample: _upsample,
    nn.ReflectionPad1d: _border_pad("reflect"),
    nn.ReflectionPad2d: _border_pad("reflect"),
    nn.ReplicationPad1d: _border_pad("replicate"),
    nn.ReplicationPad2d: _border_pad("replicate"),
    nn.CircularPad1d: _border_pad("circular"),
    nn.CircularPad2d: _border_pad("circular"),
    FlipPositions: lambda module: (Flip(),),
    nn.ZeroPad2d: lambda module: (ZeroPad2d(tuple(module.padding)),),
    nn.AdaptiveAvgPool2d: lambda module: (adaptive_pool(module.output_size),),
    nn.Identity: lambda module: (),
    nn.Dropout: _dropout(Dropout),
    nn.Dropout1d: _dropout(Dropout1d),
    nn.Dropout2d: _dropout(Dropout2d),
    ExampleDropout: _dropout(StochasticDepth),
    Sum: lambda module: (Add(),),
    MeanOfPlanes: lambda module: (GlobalAvgPool(),),
    Product: lambda module: (Mul(),),
    SideBySide: lambda module: (Concat(),),
    PositionwiseEmbedding: lambda module: _embedding(module)._replace(gives=first),
    PositionwiseLinear: lambda module: ModuleSemantics(_linear(module), wants=first),
    PositionwiseLayerNorm: lambda module: ModuleSemantics(_layer_norm(module), wants=first),
    PermuteAxes: lambda module: (Permute(module.axes),),
    ReshapeFeatures: lambda module: (Reshape(module.places),),
    FlattenPositions: lambda module: (FlattenPlaces(),),
    RepeatPositions: lambda module: (Upsample((1, module.times)),),
    SequenceGRU: lambda module: (GRU(module.input_size, module.hidden_size, bool(module.bias)),),
    SequenceRNN: lambda module: (
        RNN(module.input_size, module.hidden_size, bool(module.bias), module.nonlinearity == "relu"),
    ),
    SequenceLSTM: lambda module: (LSTM(module.input_size, module.hidden_size, bool(module.bias)),),
    SequenceSelfAttention: lambda module: (module.op,),
    **{kind: lambda module: (module.op,) for kind, _ in KINDS},
    Expression: lambda module: (Elementwise(module.expression),),
    Reduction: lambda module: (Reduce(module.kind, tuple(axis - 1 for axis in module.axes)),),
    PackedInput: lambda module: (InputPart(module.start, module.shape),),
    SlicePositions: lambda module: (Slice(module.start, module.length),),
}
