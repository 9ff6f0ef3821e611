"""The operations a graph is made of: their settings, shapes, parameters and cost. No tensor arithmetic happens here.

Each class has the meaning, parameter names and parameter shapes of the torch.nn module of the same name. Shapes leave
out the batch: [channels, height, width] or [features]. What torch allows beyond these fields (padding modes, ceil_mode,
norms without affine parameters) has no representation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

from edgefl.errors import GraphError

Shape = tuple[int, ...]
Pair = tuple[int, int]
Kind = Literal["learn", "stat"]

LARGEST_SETTING = 2**31 - 1  # ids, extents and strides travel as int32
LARGEST_WINDOW = 255  # cells of a max pool's window: the position that won is stored in one byte
LARGEST_FLOAT = 3.4028234663852886e38  # of float32
ZERO_ALLOWED = ("padding", "momentum")


class ParamInfo(NamedTuple):
    """Shape and kind of a parameter: "learn" is trained by gradient, "stat" is a running statistic of BatchNorm."""

    shape: Shape
    kind: Kind = "learn"


@dataclass(frozen=True)
class Operation:
    """One operation. Settings are checked on construction; a bad one raises GraphError with its name and value."""

    arity: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ZERO_ALLOWED else 1
            if not _fits(value, str(field.type), least):
                raise GraphError(f"{self.title}: {field.name}={value!r}; expected {_expected(str(field.type), least)}")

    @property
    def title(self) -> str:
        """The name of the operation, as in the JSON form."""
        return type(self).__name__

    def output(self, *inputs: Shape) -> Shape:
        """Shape of the result for the shapes of the inputs. Raises GraphError if they do not fit."""
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        """Parameters in torch's order, by the last part of their name."""
        return {}

    def macs(self, output: Shape) -> int:
        """Multiply-accumulates of one example's forward pass; 0 for everything but convolutions and Linear."""
        return 0

    def refuse(self, setting: str, expected: str) -> None:
        """Raise GraphError: `setting` as name=value, and what was expected."""
        raise GraphError(f"{self.title}: {setting}; expected {expected}")


@dataclass(frozen=True)
class Conv2d(Operation):
    """2-d cross-correlation with zero padding. Depthwise: groups == in_channels > 1."""

    in_channels: int
    out_channels: int
    kernel_size: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                self.refuse(f"{name}={getattr(self, name)}", f"a multiple of groups={self.groups}")

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.in_channels > 1

    def output(self, *inputs: Shape) -> Shape:
        _, height, width = _planes(self, inputs[0], self.in_channels)
        reach = tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel_size, strict=True))
        return (self.out_channels, *_slide(self, (height, width), reach, self.stride, self.padding))

    def parameters(self) -> dict[str, ParamInfo]:
        weight = ParamInfo((self.out_channels, self.in_channels // self.groups, *self.kernel_size))
        return {"weight": weight} | ({"bias": ParamInfo((self.out_channels,))} if self.bias else {})

    def macs(self, output: Shape) -> int:
        return math.prod(output) * self.in_channels // self.groups * math.prod(self.kernel_size)


@dataclass(frozen=True)
class Linear(Operation):
    """Product of a flat input [in_features] with a matrix [out_features, in_features]."""

    in_features: int
    out_features: int
    bias: bool = True

    def output(self, *inputs: Shape) -> Shape:
        if inputs[0] != (self.in_features,):
            self.refuse(f"input of shape {inputs[0]}", f"({self.in_features},)")
        return (self.out_features,)

    def parameters(self) -> dict[str, ParamInfo]:
        weight = ParamInfo((self.out_features, self.in_features))
        return {"weight": weight} | ({"bias": ParamInfo((self.out_features,))} if self.bias else {})

    def macs(self, output: Shape) -> int:
        return self.in_features * self.out_features


@dataclass(frozen=True)
class BatchNorm2d(Operation):
    """Batch normalisation with affine parameters and running statistics (torch's momentum and unbiased variance)."""

    num_features: int
    eps: float = 1e-5
    momentum: float = 0.1

    def output(self, *inputs: Shape) -> Shape:
        return _planes(self, inputs[0], self.num_features)

    def parameters(self) -> dict[str, ParamInfo]:
        shape = (self.num_features,)
        return {
            "weight": ParamInfo(shape),
            "bias": ParamInfo(shape),
            "running_mean": ParamInfo(shape, "stat"),
            "running_var": ParamInfo(shape, "stat"),
        }


@dataclass(frozen=True)
class GroupNorm(Operation):
    """Normalisation over num_groups equal runs of channels, with one affine pair per channel."""

    num_groups: int
    num_channels: int
    eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_channels % self.num_groups:
            self.refuse(f"num_channels={self.num_channels}", f"a multiple of num_groups={self.num_groups}")

    def output(self, *inputs: Shape) -> Shape:
        return _planes(self, inputs[0], self.num_channels)

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo((self.num_channels,)), "bias": ParamInfo((self.num_channels,))}


@dataclass(frozen=True)
class Rectifier(Operation):
    """An activation whose backward pass reads one bit of each value, x > 0: what ReLU and its kinds share."""


@dataclass(frozen=True)
class ReLU(Rectifier):
    """max(x, 0)."""


@dataclass(frozen=True)
class LeakyReLU(Rectifier):
    """x where it is positive, else negative_slope * x. The slope may have either sign."""

    negative_slope: float = 0.01

    def __post_init__(self) -> None:
        if not (isinstance(self.negative_slope, float) and abs(self.negative_slope) <= LARGEST_FLOAT):
            self.refuse(f"negative_slope={self.negative_slope!r}", "a float that is finite in float32")


@dataclass(frozen=True)
class Pool(Operation):
    """A window over each plane: what MaxPool2d and AvgPool2d share."""

    kernel_size: Pair
    stride: Pair
    padding: Pair = (0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(2 * pad > kernel for pad, kernel in zip(self.padding, self.kernel_size, strict=True)):
            self.refuse(f"padding={self.padding}", f"at most half of kernel_size={self.kernel_size}")

    def output(self, *inputs: Shape) -> Shape:
        channels, height, width = _planes(self, inputs[0])
        return (channels, *_slide(self, (height, width), self.kernel_size, self.stride, self.padding))


@dataclass(frozen=True)
class MaxPool2d(Pool):
    """Largest value of each window; padding never wins."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.prod(self.kernel_size) > LARGEST_WINDOW:
            self.refuse(f"kernel_size={self.kernel_size}", f"a window of at most {LARGEST_WINDOW} cells")


@dataclass(frozen=True)
class AvgPool2d(Pool):
    """Mean of each window; with count_include_pad the divisor counts padded cells too."""

    count_include_pad: bool = True


@dataclass(frozen=True)
class GlobalAvgPool(Operation):
    """Mean over each plane: [channels, height, width] to [channels, 1, 1]."""

    def output(self, *inputs: Shape) -> Shape:
        return (_planes(self, inputs[0])[0], 1, 1)


@dataclass(frozen=True)
class Flatten(Operation):
    """All axes into one, channel-major: [channels, height, width] to [channels * height * width]."""

    def output(self, *inputs: Shape) -> Shape:
        return (math.prod(inputs[0]),)


@dataclass(frozen=True)
class Add(Operation):
    """Sum of two results of the same shape."""

    arity: ClassVar[int] = 2

    def output(self, *inputs: Shape) -> Shape:
        if inputs[0] != inputs[1]:
            self.refuse(f"inputs of shapes {inputs[0]} and {inputs[1]}", "equal shapes")
        return inputs[0]


OPERATIONS: dict[str, type[Operation]] = {
    op.__name__: op
    for op in (
        Conv2d,
        Linear,
        BatchNorm2d,
        GroupNorm,
        ReLU,
        LeakyReLU,
        MaxPool2d,
        AvgPool2d,
        GlobalAvgPool,
        Flatten,
        Add,
    )
}


def _planes(op: Operation, shape: Shape, channels: int | None = None) -> tuple[int, int, int]:
    """`shape` as [channels, height, width], with the given number of channels if one is given."""
    if len(shape) != 3:
        op.refuse(f"input of shape {shape}", "[channels, height, width]")
    if channels is not None and shape[0] != channels:
        op.refuse(f"input with {shape[0]} channels", str(channels))
    return shape[0], shape[1], shape[2]


def _slide(op: Operation, size: Shape, reach: Shape, stride: Pair, padding: Pair) -> Shape:
    """Extents of the result of sliding a window of `reach` cells over `size` cells."""
    result = tuple(
        (cells + 2 * pad - window) // step + 1
        for cells, window, step, pad in zip(size, reach, stride, padding, strict=True)
    )
    if min(result) < 1:
        op.refuse(f"a window of {reach} over {size} cells with padding {padding}", "at least one output cell")
    return result


def _fits(value: object, annotation: str, least: int) -> bool:
    if annotation == "Pair":
        return isinstance(value, tuple) and len(value) == 2 and all(_fits(v, "int", least) for v in value)
    if annotation == "bool":
        return isinstance(value, bool)
    if annotation == "float":
        return isinstance(value, float) and math.isfinite(value) and (value > 0 or value == least)
    return type(value) is int and least <= value <= LARGEST_SETTING


def _expected(annotation: str, least: int) -> str:
    whole = f"{least} <= integer <= {LARGEST_SETTING}"
    real = f"a finite float {'>' if least else '>='} 0"
    return {"Pair": f"a pair of {whole}", "bool": "True or False", "float": real}.get(annotation, whole)
