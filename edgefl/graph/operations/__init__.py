"""The operations a graph is made of: their settings, shapes, parameters and cost. No tensor arithmetic happens here.

Each class has the meaning, parameter names and parameter shapes of the torch.nn module of the same name. Shapes leave
out the batch: [channels, height, width], [channels, length] or [features]. What torch allows beyond these fields
(padding modes, norms without affine parameters) has no representation.
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
from edgefl.graph.operations.arrange import Add, Concat, Flatten, Mul, Upsample, ZeroPad2d
from edgefl.graph.operations.base import LARGEST_SETTING, Kind, Operation, Pair, ParamInfo, Shape
from edgefl.graph.operations.dropout import AnyDropout, Dropout, Dropout1d, Dropout2d
from edgefl.graph.operations.norm import BatchNorm, BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm
from edgefl.graph.operations.pool import (
    AdaptiveAvgPool1d,
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
        AdaptiveAvgPool1d,
        Flatten,
        Add,
        Mul,
        Concat,
        ZeroPad2d,
        Upsample,
        Dropout,
        Dropout1d,
        Dropout2d,
    )
}
"""By the name in a graph's JSON."""

__all__ = [
    "GELU",
    "LARGEST_SETTING",
    "OPERATIONS",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "Add",
    "AnyDropout",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "Concat",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Flatten",
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
    "Pool",
    "ReLU",
    "ReLU6",
    "Rectifier",
    "Shape",
    "SiLU",
    "Sigmoid",
    "Smooth",
    "Softplus",
    "Tanh",
    "Upsample",
    "ZeroPad2d",
]
