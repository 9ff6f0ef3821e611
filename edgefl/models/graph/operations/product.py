"""Products with a weight: convolutions and Linear layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgefl.models.graph.operations.base import Operation, Pair, ParamInfo, Shape, planes, sequence, slide


@dataclass(frozen=True)
class Conv2d(Operation):
    """A 2-d cross-correlation of [channels, height, width] with zero padding.

    It is depthwise if groups == in_channels > 1.
    """

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
        _, height, width = planes(self, inputs[0], self.in_channels)
        reach = tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel_size, strict=True))
        return (self.out_channels, *slide(self, (height, width), reach, self.stride, self.padding))

    def parameters(self) -> dict[str, ParamInfo]:
        weight = ParamInfo((self.out_channels, self.in_channels // self.groups, *self.kernel_size))
        return {"weight": weight} | ({"bias": ParamInfo((self.out_channels,))} if self.bias else {})

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        return {"weight": math.prod(output) * self.in_channels // self.groups * math.prod(self.kernel_size)}


@dataclass(frozen=True)
class Conv1d(Operation):
    """A 1-d cross-correlation of [channels, length] with zero padding, which is a Conv2d of planes of one row."""

    in_channels: int
    out_channels: int
    kernel_size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.as_planes

    @property
    def as_planes(self) -> Conv2d:
        """Return the equivalent operation on planes of one row."""
        settings = ((1, self.kernel_size), (1, self.stride), (0, self.padding), (1, self.dilation))
        return Conv2d(self.in_channels, self.out_channels, *settings, self.groups, self.bias)

    @property
    def is_depthwise(self) -> bool:
        return self.as_planes.is_depthwise

    def output(self, *inputs: Shape) -> Shape:
        channels, length = sequence(self, inputs[0], self.in_channels)
        return self.as_planes.output((channels, 1, length))[::2]

    def parameters(self) -> dict[str, ParamInfo]:
        planes = self.as_planes.parameters()
        return planes | {"weight": ParamInfo((*planes["weight"].shape[:2], self.kernel_size))}

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        return self.as_planes.macs_by_weight(output)


@dataclass(frozen=True)
class ConvTranspose2d(Operation):
    """The transpose of Conv2d, which spreads each cell over a window.

    output_padding  (rows, columns) that are added to the result at the bottom and on the right
    """

    in_channels: int
    out_channels: int
    kernel_size: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    output_padding: Pair = (0, 0)
    groups: int = 1
    bias: bool = True
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.transposed
        if any(more >= step for more, step in zip(self.output_padding, self.stride, strict=True)):
            self.refuse(f"output_padding={self.output_padding}", f"less than stride={self.stride}")

    @property
    def transposed(self) -> Conv2d:
        """Return the convolution whose input gradient this operation computes."""
        settings = (self.kernel_size, self.stride, self.padding, self.dilation, self.groups)
        return Conv2d(self.out_channels, self.in_channels, *settings, bias=False)

    def output(self, *inputs: Shape) -> Shape:
        _, *size = planes(self, inputs[0], self.in_channels)
        settings = (self.kernel_size, self.stride, self.padding, self.output_padding, self.dilation)
        result = tuple(
            (cells - 1) * step - 2 * pad + apart * (kernel - 1) + more + 1
            for cells, kernel, step, pad, more, apart in zip(size, *settings, strict=True)
        )
        if min(result) < 1:
            self.refuse(f"padding={self.padding} of a result {result}", "at least one output cell")
        return (self.out_channels, *result)

    def parameters(self) -> dict[str, ParamInfo]:
        weight = self.transposed.parameters()
        return weight | ({"bias": ParamInfo((self.out_channels,))} if self.bias else {})

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        height, width = (
            (cells + 2 * pad - more - apart * (kernel - 1) - 1) // step + 1
            for cells, kernel, step, pad, more, apart in zip(
                output[1:], self.kernel_size, self.stride, self.padding, self.output_padding, self.dilation, strict=True
            )
        )
        return self.transposed.macs_by_weight((self.in_channels, height, width))


@dataclass(frozen=True)
class Linear(Operation):
    """The product of features with a matrix [out_features, in_features].

    The input is [in_features], or [in_features, length] or [in_features, height, width] with one product at each
    position. Torch has the features last.
    """

    in_features: int
    out_features: int
    bias: bool = True

    @property
    def as_planes(self) -> Conv2d:
        """Return the equivalent convolution of planes."""
        return Conv2d(self.in_features, self.out_features, (1, 1), bias=self.bias)

    def output(self, *inputs: Shape) -> Shape:
        features, *positions = inputs[0]
        if features != self.in_features:
            self.refuse(f"input of shape {inputs[0]}", str((self.in_features, *positions)))
        return (self.out_features, *positions)

    def parameters(self) -> dict[str, ParamInfo]:
        weight = ParamInfo((self.out_features, self.in_features))
        return {"weight": weight} | ({"bias": ParamInfo((self.out_features,))} if self.bias else {})

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        return {"weight": self.in_features * math.prod(output)}
