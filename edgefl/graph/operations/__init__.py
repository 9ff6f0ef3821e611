"""The operations a graph is made of: their settings, shapes, parameters and cost. No tensor arithmetic happens here.

Each class has the meaning, parameter names and parameter shapes of the torch.nn module of the same name. Shapes leave
out the batch: [channels, height, width], [channels, length] or [features]. What torch allows beyond these fields
(padding modes, ceil_mode, norms without affine parameters) has no representation.
"""

from edgefl.graph.operations.activation import (
    GELU,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    PReLU,
    Rectifier,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Smooth,
    Softplus,
    Tanh,
)
from edgefl.graph.operations.arrange import (
    Add,
    Concat,
    Flatten,
    FlattenPlaces,
    Mul,
    Permute,
    Reshape,
    Slice,
    SliceOfRow,
    Upsample,
    ZeroPad2d,
)
from edgefl.graph.operations.base import LARGEST_SETTING, Kind, Operation, Pair, ParamInfo, Shape
from edgefl.graph.operations.norm import BatchNorm, BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm
from edgefl.graph.operations.pool import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    GlobalAvgPool,
    LinePool,
    MaxPool1d,
    MaxPool2d,
    Pool,
)
from edgefl.graph.operations.product import Conv1d, Conv2d, ConvTranspose2d, Linear
from edgefl.graph.operations.sequence import GRU, LSTM, Recurrent, SelfAttention

OPERATIONS: dict[str, type[Operation]] = {
    op.__name__: op
    for op in (
        Conv2d,
        Conv1d,
        ConvTranspose2d,
        Linear,
        BatchNorm2d,
        BatchNorm1d,
        GroupNorm,
        LayerNorm,
        ReLU,
        ReLU6,
        LeakyReLU,
        PReLU,
        Sigmoid,
        Tanh,
        SiLU,
        GELU,
        Hardsigmoid,
        Hardswish,
        Softplus,
        MaxPool2d,
        MaxPool1d,
        AvgPool2d,
        AvgPool1d,
        GlobalAvgPool,
        AdaptiveAvgPool2d,
        Flatten,
        Add,
        Mul,
        Concat,
        ZeroPad2d,
        Upsample,
        GRU,
        LSTM,
        SelfAttention,
        Reshape,
        Permute,
        FlattenPlaces,
        Slice,
    )
}
"""By the name in a graph's JSON."""

VIEWS = (Flatten, Reshape)
"""Operations whose result is the memory of what they read."""

__all__ = [
    "GELU",
    "GRU",
    "LARGEST_SETTING",
    "LSTM",
    "OPERATIONS",
    "VIEWS",
    "AdaptiveAvgPool2d",
    "Add",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "Concat",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Flatten",
    "FlattenPlaces",
    "GlobalAvgPool",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Kind",
    "LayerNorm",
    "LeakyReLU",
    "LinePool",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "Mul",
    "Operation",
    "PReLU",
    "Pair",
    "ParamInfo",
    "Permute",
    "Pool",
    "ReLU",
    "ReLU6",
    "Rectifier",
    "Recurrent",
    "Reshape",
    "SelfAttention",
    "Shape",
    "SiLU",
    "Sigmoid",
    "Slice",
    "SliceOfRow",
    "Smooth",
    "Softplus",
    "Tanh",
    "Upsample",
    "ZeroPad2d",
]
