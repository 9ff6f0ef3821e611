"""Normalisations over the batch, over groups of channels and over the values of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, ParamInfo, Shape, planes, sequence


@dataclass(frozen=True)
class BatchNorm(Operation):
    """Batch normalisation with affine parameters and running statistics (torch's momentum and unbiased variance).

    Without track_running_stats it normalises by the statistics of the batch in evaluation, too. A result then depends
    on the samples that are evaluated together.
    """

    num_features: int
    eps: float = 1e-5
    momentum: float = 0.1
    track_running_stats: bool = True
    later: ClassVar[tuple[str, ...]] = ("track_running_stats",)

    def parameters(self) -> dict[str, ParamInfo]:
        shape = (self.num_features,)
        statistics = ("running_mean", "running_var") if self.track_running_stats else ()
        affine = {"weight": ParamInfo(shape), "bias": ParamInfo(shape)}
        return affine | {name: ParamInfo(shape, "stat") for name in statistics}


@dataclass(frozen=True)
class BatchNorm2d(BatchNorm):
    """Batch normalisation of planes."""

    def output(self, *inputs: Shape) -> Shape:
        return planes(self, inputs[0], self.num_features)


@dataclass(frozen=True)
class BatchNorm1d(BatchNorm):
    """Batch normalisation of features, or of sequences [channels, length]."""

    @property
    def as_planes(self) -> BatchNorm2d:
        """Return the equivalent operation on planes of one row."""
        return BatchNorm2d(self.num_features, self.eps, self.momentum, self.track_running_stats)

    def output(self, *inputs: Shape) -> Shape:
        shape = inputs[0]
        if len(shape) not in (1, 2) or shape[0] != self.num_features:
            self.refuse(f"input of shape {shape}", f"({self.num_features},) or ({self.num_features}, length)")
        return shape


@dataclass(frozen=True)
class GroupNorm(Operation):
    """Normalisation over num_groups equal runs of channels, with one affine pair (weight and bias) for each channel.

    With as many groups as channels it is torch's instance normalisation.
    """

    num_groups: int
    num_channels: int
    eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_channels % self.num_groups:
            self.refuse(f"num_channels={self.num_channels}", f"a multiple of num_groups={self.num_groups}")

    def output(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) == 2:
            return sequence(self, inputs[0], self.num_channels)
        return planes(self, inputs[0], self.num_channels)

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo((self.num_channels,)), "bias": ParamInfo((self.num_channels,))}


@dataclass(frozen=True)
class LayerNorm(Operation):
    """Normalisation over all values of a sample, with an affine pair (weight and bias) for each value.

    With one extent it normalises over the channels at each position, with an affine pair for each channel. Torch does
    this over the last axis.
    """

    normalized_shape: Shape
    eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.normalized_shape) <= 3:
            self.refuse(f"normalized_shape={self.normalized_shape}", "1 to 3 extents")

    @property
    def as_planes(self) -> LayerNorm:
        """Return the equivalent operation on planes of one row."""
        if len(self.normalized_shape) == 1:
            return self
        channels, length = self.normalized_shape
        return LayerNorm((channels, 1, length), self.eps)

    def output(self, *inputs: Shape) -> Shape:
        seen = inputs[0][:1] if len(self.normalized_shape) == 1 else inputs[0]
        if seen != self.normalized_shape:
            self.refuse(f"input of shape {inputs[0]}", str(self.normalized_shape))
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo(self.normalized_shape), "bias": ParamInfo(self.normalized_shape)}
