"""Rectifiers, addition, multiplication and zeroing: csrc/cuda/elementwise.cuh."""

from __future__ import annotations

import math

from .launch import THREADS, Fields, Ids, KernelArray, Launches, chosen, fours, launch, tiled
from .structs import declare

declare(
    {
        "rectify_forward of relu_forward": "x y bits planes inner threads_each slope:real most:real",
        # The planes have whole bytes of bits, `count` of them.
        "rectify_bytes of relu_forward": "x y bits count slope:real most:real",
        "rectify_backward of relu_backward": "dy bits dx chosen:Chosen batch slope:real",
        "PairArgs: add mul": "a b y count",
        "channel_dot": "a b out planes inner",
        "fill_zero": "x:bytes[]! bytes",
        "evaluate": "a b c d e program steps constants y count",
    }
)


def relu_forward(x: KernelArray, y: KernelArray, bits: KernelArray | None = None) -> Launches:
    return _rectify(x, y, bits, 0.0, math.inf)


def leaky_relu_forward(
    x: KernelArray, negative_slope: float, y: KernelArray, bits: KernelArray | None = None
) -> Launches:
    return _rectify(x, y, bits, negative_slope, math.inf)


def relu6_forward(x: KernelArray, y: KernelArray, bits: KernelArray | None = None) -> Launches:
    return _rectify(x, y, bits, 0.0, 6.0)


def relu_backward(dy: KernelArray, bits: KernelArray, dx: KernelArray, channels: KernelArray | None) -> Launches:
    return leaky_relu_backward(dy, bits, 0.0, dx, channels)


def leaky_relu_backward(
    dy: KernelArray, bits: KernelArray, negative_slope: float, dx: KernelArray, channels: KernelArray | None
) -> Launches:
    batch, ids = dy.shape[0], Ids.of(channels, dy.shape[1])
    work, taken = batch * ids.count * dy.inner, chosen(channels, dy)
    return [launch("rectify_backward", work, dy=dy, bits=bits, dx=dx, chosen=taken, batch=batch, slope=negative_slope)]


def add(a: KernelArray, b: KernelArray, y: KernelArray) -> Launches:
    return [launch("add", fours(y.size), a=a, b=b, y=y, count=y.size)]


def mul(a: KernelArray, b: KernelArray, y: KernelArray) -> Launches:
    return [launch("mul", fours(y.size), a=a, b=b, y=y, count=y.size)]


def channel_dot(a: KernelArray, b: KernelArray, out: KernelArray) -> Launches:
    return [tiled("channel_dot", (-(-out.size // 8), 1, 1), a=a, b=b, out=out, planes=out.size, inner=a.inner)]


def evaluate(
    a: KernelArray, b: KernelArray | None, c: KernelArray | None, d: KernelArray | None, e: KernelArray | None,
    program: KernelArray, constants: KernelArray, y: KernelArray,
) -> Launches:  # fmt: skip
    steps: Fields = {"program": program, "steps": program.shape[0], "constants": constants}
    return [launch("evaluate", y.size, a=a, b=b, c=c, d=d, e=e, **steps, y=y, count=y.size)]


def fill_zero(x: KernelArray) -> Launches:
    size = x.size * x.dtype.itemsize
    return [launch("fill_zero", -(-size // 16), x=x, bytes=size)]


def _rectify(x: KernelArray, y: KernelArray, bits: KernelArray | None, slope: float, most: float) -> Launches:
    if x.inner % 8 == 0:
        return [launch("rectify_bytes", x.size // 8, x=x, y=y, bits=bits, count=x.size // 8, slope=slope, most=most)]
    planes, each = x.shape[0] * x.shape[1], _threads_of_byte(x.inner)
    blocks = -(-planes * -(-x.inner // 8) * each // THREADS)
    extents = {"planes": planes, "inner": x.inner, "threads_each": each}
    return [tiled("rectify_forward", (blocks, 1, 1), x=x, y=y, bits=bits, **extents, slope=slope, most=most)]


def _threads_of_byte(inner: int) -> int:
    """Return the least power of two that is not below the number of values in a byte of bits."""
    return 1 << (max(min(inner, 8), 1) - 1).bit_length()
