"""A max pool, and a ReLU before a max pool, on torch's tensors by the native kernels, without autograd and modules.

The ReLU is computed after the pool, on fewer values. The largest cell of a window stays the largest one after the ReLU,
and no gradient passes where no cell is above 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgefl.torch.native_tensors import array, ops

Pair = tuple[int, int]


class PoolWindow(NamedTuple):
    """The window of a max pool without dilation.

    is_rectified  whether the pool reads ReLU(x)
    """

    kernel: Pair
    stride: Pair
    padding: Pair
    ceil_mode: bool = False
    is_rectified: bool = False


def extents(shape: tuple[int, ...], window: PoolWindow) -> tuple[int, int, int, int]:
    """Return the shape of the result for x of this shape."""
    axes = zip(shape[2:], window.kernel, window.stride, window.padding, strict=True)
    high, wide = (_cells(*each, window.ceil_mode) for each in axes)
    return shape[0], shape[1], high, wide


def bits_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape [planes, bytes] of one bit for each cell of a result of this shape."""
    return shape[0] * shape[1], (shape[2] * shape[3] + 7) // 8


def largest(x: Tensor, window: PoolWindow) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return x [batch, channels, height, width] pooled, and two tensors for the backward pass.

    These are the position of the largest cell in its window, one byte each, and one bit for each result above 0.
    """
    y = torch.empty(extents(x.shape, window))
    codes = torch.empty(y.shape, dtype=torch.uint8)
    ops().maxpool_forward(array(x), y.numpy(), codes.numpy(), window.kernel, window.stride, window.padding)
    if not window.is_rectified:
        return y, codes, None
    bits = torch.empty(bits_shape(y.shape), dtype=torch.uint8)
    ops().relu_forward(y.numpy(), y.numpy(), bits.numpy())
    return y, codes, bits


def grad_input(dy: Tensor, codes: Tensor, bits: Tensor | None, shape: tuple[int, ...], window: PoolWindow) -> Tensor:
    """Return dx of `shape`."""
    if bits is not None:
        passed = torch.empty(dy.shape)
        ops().relu_backward(array(dy), bits.numpy(), passed.numpy(), None)
        dy = passed
    dx = torch.empty(shape)
    ops().maxpool_backward(array(dy), codes.numpy(), dx.numpy(), window.kernel, window.stride, window.padding, None)
    return dx


def _cells(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """Return the number of windows along an axis by torch's rule: the last window begins inside."""
    room = size + 2 * padding - kernel
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - ((count - 1) * stride >= size + padding)


def winners(codes: Tensor, shape: tuple[int, ...], window: PoolWindow) -> Tensor:
    """Return the position of the cell that each result came from, counted along the rows of its plane.

    shape  shape of x
    """
    kernel_width, code = window.kernel[1], codes.long()
    rows = torch.arange(codes.shape[2]).view(-1, 1) * window.stride[0] - window.padding[0] + code // kernel_width
    cols = torch.arange(codes.shape[3]) * window.stride[1] - window.padding[1] + code % kernel_width
    return rows * shape[3] + cols


def unpacked(bits: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return bits of planes, low bits first, as 0 and 1 in float32 of this shape."""
    cells = shape[2] * shape[3]
    found = (bits.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
    return found.flatten(1)[:, :cells].reshape(shape).float()
