"""Blocks under torch's autograd: a norm with its ReLU and max pool, or a max pool alone or after a ReLU.

The modules that call the blocks are in native_block.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from edgefl.torch import norm_kernels, pool_kernels
from edgefl.torch.layer_selection import ActiveChannels
from edgefl.torch.native_tensors import again
from edgefl.torch.norm_kernels import Norm
from edgefl.torch.pool_kernels import PoolWindow


class NormReLU(torch.autograd.Function):
    """The function (x, weight, bias, running mean and variance or None) -> result of a norm with its ReLU and pool.

    The backward pass keeps x, and no other tensor of its size.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running: tuple[Tensor, Tensor] | None,
        norm: Norm,
        active: ActiveChannels,
    ) -> Tensor:
        y, mean, inv_std = norm_kernels.rectified(x, weight, bias, running, norm)
        ctx.save_for_backward(x, weight, bias, mean, inv_std)
        ctx.norm, ctx.active, ctx.needed = norm, active, active.needed_input_channels(x)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, inv_std = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = again(lambda x, weight, bias: plain_norm(x, weight, bias, ctx.norm), (x, weight, bias), dy)
            return *found, None, None, None
        dx, dw, db = norm_kernels.gradients(dy, x, weight, bias, mean, inv_std, ctx.norm, ctx.active, ctx.needed)
        return dx, dw, db, None, None, None


class MaxPool(torch.autograd.Function):
    """The function x -> max pool of x, or of ReLU(x). It keeps one byte for each result, and one bit for a ReLU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: PoolWindow) -> Tensor:
        y, codes, bits = pool_kernels.largest(x, window)
        ctx.save_for_backward(codes, bits)
        ctx.shape, ctx.window = x.shape, window
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        codes, bits = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _sent(dy, codes, bits, ctx.shape, ctx.window), None
        return pool_kernels.grad_input(dy, codes, bits, ctx.shape, ctx.window), None


def plain_norm(x: Tensor, weight: Tensor, bias: Tensor, norm: Norm) -> Tensor:
    """Return the block's result, computed by torch with the statistics of the batch."""
    if norm.groups:
        y = F.group_norm(x, norm.groups, weight, bias, norm.eps)
    else:
        y = F.batch_norm(x, None, None, weight, bias, True, 0.0, norm.eps)
    y = F.relu6(y) if norm.relu6 else F.relu(y)
    return F.max_pool2d(y, 2) if norm.halved else y


def _sent(dy: Tensor, codes: Tensor, bits: Tensor | None, shape: tuple[int, ...], window: PoolWindow) -> Tensor:
    """Return the gradient of the pool's input as a function of dy that torch can differentiate.

    The function is linear, because it only sends each value of dy to the cell of the largest value.
    """
    cells, width = pool_kernels.winners(codes, shape, window), shape[3]
    if bits is not None:
        dy = dy * pool_kernels.unpacked(bits, dy.shape)
    dx = dy.new_zeros(shape[0], shape[1], shape[2] * width)
    return dx.scatter_add(2, cells.flatten(2), dy.flatten(2)).view(shape)
