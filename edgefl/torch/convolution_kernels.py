"""The three products of a convolution of torch's tensors by the native kernels, without autograd and modules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgefl.torch.layer_selection import WHOLE, ActiveChannels, extent, spread
from edgefl.torch.native_tensors import Ids, array, array_or_none, ops

Pair = tuple[int, int]


class ConvolutionGeometry(NamedTuple):
    """The settings of a convolution, as nn.Conv2d has them."""

    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int


def extents(x: tuple[int, ...], weight: tuple[int, ...], geometry: ConvolutionGeometry) -> tuple[int, int, int, int]:
    """Return the shape of the result, [batch, outputs, height, width]."""
    (stride_h, stride_w), (pad_h, pad_w), (dil_h, dil_w), _ = geometry
    high = (x[2] + 2 * pad_h - dil_h * (weight[2] - 1) - 1) // stride_h + 1
    wide = (x[3] + 2 * pad_w - dil_w * (weight[3] - 1) - 1) // stride_w + 1
    return x[0], weight[0], high, wide


def product(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: ConvolutionGeometry) -> Tensor:
    """Return the convolution [batch, outputs, ...] of x [batch, inputs, height, width].

    weight  [outputs, inputs / groups, kernel height, kernel width]
    """
    y = torch.empty(extents(x.shape, weight.shape, geometry))
    ops().conv2d_forward(array(x), array(weight), array_or_none(bias), y.numpy(), *geometry)
    return y


def grad_input(
    dy: Tensor, weight: Tensor, shape: tuple[int, ...], geometry: ConvolutionGeometry, needed: Ids = None
) -> Tensor:
    """Return dx of `shape`. It is 0 in channels that are not `needed`."""
    dx = (torch.empty if needed is None else torch.zeros)(shape)
    ops().conv2d_grad_input(array(dy), array(weight), dx.numpy(), *geometry, None, needed)
    return dx


def grad_weight(
    kept: Tensor, dy: Tensor, shape: tuple[int, ...], geometry: ConvolutionGeometry, active: ActiveChannels = WHOLE
) -> Tensor:
    """Return dw of `shape`. It is 0 outside the active block.

    kept  the channels of x that `read` returns
    """
    compact = np.empty((extent(active.outs, shape[0]), extent(active.ins, shape[1]), *shape[2:]), np.float32)
    inputs = shape[1] * geometry.groups
    ops().conv2d_grad_weight(array(kept), array(dy), compact, *geometry, active.outs, None, inputs)
    return spread(compact, shape, active.outs, active.ins)


def read(active: ActiveChannels, weight: tuple[int, ...], groups: int) -> Ids:
    """Return the channels of x that the active block of the weight's gradient reads, or None for all channels."""
    if groups == 1 or active.outs is None or weight[1] != 1:
        return active.ins
    return np.unique(active.outs // (weight[0] // groups)).astype(np.int32)


def grad_bias(dy: Tensor, active: ActiveChannels = WHOLE) -> Tensor:
    """Return the sums of dy over samples and positions. They are 0 for frozen outputs."""
    sums = np.empty(extent(active.outs, dy.shape[1]), np.float32)
    ops().channel_sum(array(dy), sums, active.outs)
    return spread(sums, (dy.shape[1],), active.outs)
