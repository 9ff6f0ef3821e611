"""Rectifiers, addition, multiplication and zeroing: csrc/cuda/elementwise.cuh."""

from __future__ import annotations

import math

from .launch import THREADS, Ids, KernelArray, Launches, chosen, fours, launch, tiled


def relu_forward(x: KernelArray, y: KernelArray, bits: KernelArray | None = None) -> Launches:
    return _rectify(x, y, bits, 0.0, math.inf)


def leaky_relu_forward(
    x: KernelArray, negative_slope: float, y: KernelArray, bits: KernelArray | None = None
) -> Launches:
    return _rectify(x, y, bits, float(negative_slope), math.inf)


def relu6_forward(x: KernelArray, y: KernelArray, bits: KernelArray | None = None) -> Launches:
    return _rectify(x, y, bits, 0.0, 6.0)


def relu_backward(dy: KernelArray, bits: KernelArray, dx: KernelArray, channels: KernelArray | None) -> Launches:
    return leaky_relu_backward(dy, bits, 0.0, dx, channels)


def leaky_relu_backward(
    dy: KernelArray, bits: KernelArray, negative_slope: float, dx: KernelArray, channels: KernelArray | None
) -> Launches:
    batch, ids = dy.shape[0], Ids.of(channels, dy.shape[1])
    fields = dy, bits, dx, *chosen(channels, dy), batch, float(negative_slope)
    return [launch("rectify_backward", batch * ids.count * dy.inner, *fields)]


def add(a: KernelArray, b: KernelArray, y: KernelArray) -> Launches:
    return [launch("add", fours(y.size), a, b, y, y.size)]


def mul(a: KernelArray, b: KernelArray, y: KernelArray) -> Launches:
    return [launch("mul", fours(y.size), a, b, y, y.size)]


def add_channels(y: KernelArray, offset: KernelArray) -> Launches:
    return [launch("add_channels", y.size, y, offset, y.shape[0] * y.shape[1], y.shape[1], y.inner)]


def scale_channels(x: KernelArray, scale: KernelArray, y: KernelArray) -> Launches:
    return [launch("scale_channels", x.size, x, scale, y, scale.size, x.inner)]


def channel_dot(a: KernelArray, b: KernelArray, out: KernelArray) -> Launches:
    return [tiled("channel_dot", (-(-out.size // 8), 1, 1), a, b, out, out.size, a.inner)]


def scale_places(x: KernelArray, scale: KernelArray, y: KernelArray) -> Launches:
    return [launch("scale_places", x.size, x, scale, y, x.size, x.shape[1], x.inner)]


def place_dot(a: KernelArray, b: KernelArray, out: KernelArray) -> Launches:
    return [launch("place_dot", out.size, a, b, out, out.size, a.shape[1], a.inner)]


def fill_zero(x: KernelArray) -> Launches:
    size = x.size * x.dtype.itemsize
    return [launch("fill_zero", -(-size // 16), x, size)]


def _rectify(x: KernelArray, y: KernelArray, bits: KernelArray | None, slope: float, most: float) -> Launches:
    planes, each = x.shape[0] * x.shape[1], _threads_of_byte(x.inner)
    blocks = -(-planes * -(-x.inner // 8) * each // THREADS)
    return [tiled("rectify_forward", (blocks, 1, 1), x, y, bits, planes, x.inner, each, slope, most)]


def _threads_of_byte(inner: int) -> int:
    """Return the least power of two that is not below the number of values in a byte of bits."""
    return 1 << (max(min(inner, 8), 1) - 1).bit_length()
