"""The torch modules of operations that sample planes anew, for `to_torch`."""

from __future__ import annotations

from torch import Tensor, nn

from edgefl.models.graph.operations import BorderPad, Flip, Interpolate, Shape


class FlipPositions(nn.Module):
    """The positions of a sequence [B, channels, positions], or the columns of planes, in reverse."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(-1)


def resampling_layer(op: Interpolate | BorderPad | Flip, source: Shape) -> nn.Module:
    """Return the module of an operation that reads planes or a sequence of this shape."""
    if isinstance(op, Flip):
        return FlipPositions()
    is_sequence = len(source) == 2
    if isinstance(op, Interpolate):
        mode, size = ("linear", op.size[1:]) if is_sequence else ("bilinear", op.size)
        return nn.Upsample(size, mode=mode, align_corners=op.align_corners)
    kind = getattr(nn, op.title.replace("2d", "1d") if is_sequence else op.title)
    layer: nn.Module = kind(op.padding[:2] if is_sequence else op.padding)
    return layer
