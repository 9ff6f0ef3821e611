"""Channels-first forms of torch modules that read channels last, with torch's parameter names, for `to_torch`.

module_table.py reads a user's modules.
"""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional

from edgefl.models.graph.operations import Shape


class PositionwiseLinear(nn.Linear):
    """A Linear layer that is applied at each position of [B, in_features, ...]."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)


class PositionwiseLayerNorm(nn.LayerNorm):
    """A LayerNorm over the channels at each position of [B, channels, ...]."""

    def forward(self, x: Tensor) -> Tensor:
        normed = functional.layer_norm(x.movedim(1, -1), self.normalized_shape, self.weight, self.bias, self.eps)
        return normed.movedim(-1, 1)


class PermuteAxes(nn.Module):
    """The input with its axes in another order. The axis of the batch stays first and is not counted."""

    def __init__(self, axes: Shape) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:  # torch's batch norm gets its bias gradient wrong if it receives a permuted view
            x.register_hook(Tensor.contiguous)
        return x.permute(0, *(axis + 1 for axis in self.axes)).contiguous()


class ReshapeFeatures(nn.Module):
    """The input as [B, channels, *places], with its values in unchanged order."""

    def __init__(self, places: Shape) -> None:
        super().__init__()
        self.places = places

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1, *self.places)


class FlattenPositions(nn.Module):
    """The input [B, channels, ...] as features [B, F], position after position."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1).flatten(1)


class SlicePositions(nn.Module):
    """The `length` positions of a sequence [B, channels, positions] that begin with position `start`."""

    def __init__(self, start: int, length: int) -> None:
        super().__init__()
        self.start, self.length = start, length

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, self.start : self.start + self.length]


class PackedInput(nn.Module):
    """One of several inputs that lie side by side in [B, values]: as many values as `shape` has, from `start` on."""

    def __init__(self, start: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.start, self.shape = start, shape

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.start : self.start + math.prod(self.shape)].unflatten(1, self.shape)


class PositionwiseEmbedding(nn.Embedding):
    """The rows of a table as [B, features, length], for ids [B, length] that are floats."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.long()).movedim(-1, 1)


class RepeatPositions(nn.Module):
    """Each position of a sequence, repeated `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.times, -1)
