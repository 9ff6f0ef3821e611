"""Channels-first forms of torch modules that read channels last, under torch's names of parameters, for `to_torch`. A
user's module is read elsewhere.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from edgefl.models.graph.operations import Shape


class PositionwiseLinear(nn.Linear):
    """Linear at each place of [B, in_features, ...]."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)


class PositionwiseLayerNorm(nn.LayerNorm):
    """LayerNorm over the channels of each place of [B, channels, ...]."""

    def forward(self, x: Tensor) -> Tensor:
        normed = functional.layer_norm(x.movedim(1, -1), self.normalized_shape, self.weight, self.bias, self.eps)
        return normed.movedim(-1, 1)


class PermuteAxes(nn.Module):
    """Axes in another order, without the batch's."""

    def __init__(self, axes: Shape) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:  # torch's batch norm has wrong gradients of its bias for signals that are permuted views
            x.register_hook(Tensor.contiguous)
        return x.permute(0, *(axis + 1 for axis in self.axes)).contiguous()


class ReshapeFeatures(nn.Module):
    """[B, ..., *places] with the values in their order."""

    def __init__(self, places: Shape) -> None:
        super().__init__()
        self.places = places

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1, *self.places)


class FlattenPositions(nn.Module):
    """[B, channels, ...] as features, a place after another."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1).flatten(1)


class SlicePositions(nn.Module):
    """So many places of a line."""

    def __init__(self, start: int, length: int) -> None:
        super().__init__()
        self.start, self.length = start, length

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, self.start : self.start + self.length]


class PositionwiseEmbedding(nn.Embedding):
    """Rows of a table as [B, features, length], of ids in floats."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.long()).movedim(-1, 1)


class RepeatPositions(nn.Module):
    """Each place of a line so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.times, -1)
