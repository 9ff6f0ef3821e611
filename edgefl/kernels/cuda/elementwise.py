"""Rectifiers, addition, multiplication and zeroing: csrc/cuda/elementwise.cuh."""

from __future__ import annotations

import math

from .launch import At, Ids, Launches, launch


def relu_forward(x: At, y: At, bits: At | None = None) -> Launches:
    return _rectify(x, y, bits, 0.0, math.inf)


def leaky_relu_forward(x: At, negative_slope: float, y: At, bits: At | None = None) -> Launches:
    return _rectify(x, y, bits, float(negative_slope), math.inf)


def relu6_forward(x: At, y: At, bits: At | None = None) -> Launches:
    return _rectify(x, y, bits, 0.0, 6.0)


def relu_backward(dy: At, bits: At, dx: At, channels: At | None) -> Launches:
    return leaky_relu_backward(dy, bits, 0.0, dx, channels)


def leaky_relu_backward(dy: At, bits: At, negative_slope: float, dx: At, channels: At | None) -> Launches:
    batch, all_channels = dy.shape[:2]
    ids = Ids.of(channels, all_channels)
    fields = dy, bits, dx, ids, batch, all_channels, dy.inner, float(negative_slope)
    return [launch("rectify_backward", batch * ids.count * dy.inner, *fields)]


def _rectify(x: At, y: At, bits: At | None, slope: float, most: float) -> Launches:
    planes = x.shape[0] * x.shape[1]
    return [launch("rectify_forward", planes * -(-x.inner // 8), x, y, bits, planes, x.inner, slope, most)]
