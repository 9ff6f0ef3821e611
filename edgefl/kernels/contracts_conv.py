"""What convolution and pooling ask of their arguments, for the Python backends. Mirrors csrc/edgefl.h; no arithmetic.

As contracts.py: one function per operation, with its name and arguments; it raises ValueError and returns the window.
"""

from __future__ import annotations

import math

import numpy as np

from .checks import Array, Ids, Pair, Window, array, floating, ids, optional, output, require, sized, window

LARGEST_WINDOW = 255  # a max-pooling code is one byte

# ---- convolution ----------------------------------------------------------------------------------------------------


def _convolution(shape: tuple[int, ...], source: Pair, channels: int, settings: tuple[Pair, Pair, Pair, int]) -> Window:
    stride, padding, dilation, groups = settings
    outs, per_group, kernel_h, kernel_w = shape
    divides = groups >= 1 and channels % groups == 0 and outs % groups == 0
    require(divides, "groups", groups, f"a divisor of {channels} input and {outs} output channels")
    require(per_group * groups == channels, "weight", shape, f"{channels // groups} input channels per group")
    return window((kernel_h, kernel_w), stride, padding, dilation, source)


def conv2d_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Window:
    dtype = floating("x", x, 4)
    array("x", x, dtype, (None,) * 4)
    array("weight", weight, dtype, (None,) * 4)
    geometry = _convolution(weight.shape, x.shape[2:], x.shape[1], (stride, padding, dilation, groups))
    optional("bias", bias, dtype, (len(weight),))
    output("y", y, dtype, (len(x), len(weight), *geometry.result))
    return geometry


def conv2d_grad_input(
    dy: Array, weight: Array, dx: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int, outs: Ids, ins: Ids
) -> Window:
    dtype = floating("dx", dx, 4)
    output("dx", dx, dtype, (None,) * 4)
    array("weight", weight, dtype, (None,) * 4)
    geometry = _convolution(weight.shape, dx.shape[2:], dx.shape[1], (stride, padding, dilation, groups))
    array("dy", dy, dtype, (len(dx), len(weight), *geometry.result))
    ids("outs", outs, len(weight))
    ids("ins", ins, dx.shape[1])
    return geometry


def conv2d_grad_weight(
    x: Array,
    dy: Array,
    dw: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Ids,
    ins: Ids,
    in_channels: int,
) -> Window:
    dtype = floating("x", x, 4)
    array("x", x, dtype, (None,) * 4)
    array("dy", dy, dtype, (len(x), None, None, None))
    output("dw", dw, dtype, (None,) * 4)
    channels = dy.shape[1]
    require(groups >= 1 and in_channels % groups == 0, "groups", groups, f"a divisor of {in_channels} input channels")
    shape = (channels, in_channels // groups, *dw.shape[2:])
    geometry = _convolution(shape, x.shape[2:], in_channels, (stride, padding, dilation, groups))
    array("dy", dy, dtype, (len(x), channels, *geometry.result))
    rows = ids("outs", outs, channels)
    if groups == 1:
        require(x.shape[1] <= in_channels, "x", x.shape, f"at most {in_channels} planes")
        columns = ids("ins", ins, x.shape[1])
    else:
        require(ins is None, "ins", ins, f"None, because groups={groups}")
        columns = in_channels // groups
        _grouped_planes(x, outs, channels // groups, in_channels, columns)
    output("dw", dw, dtype, (rows, columns, *geometry.kernel))
    return geometry


def _grouped_planes(x: Array, outs: Ids, outs_per_group: int, in_channels: int, ins_per_group: int) -> None:
    if x.shape[1] == in_channels:
        return
    active = None if outs is None or ins_per_group > 1 else len(np.unique(outs // outs_per_group))
    expected = f"{in_channels} planes" + ("" if active is None else f", or the {active} of the groups of outs")
    require(x.shape[1] == active, "x", x.shape, expected)


# ---- pooling --------------------------------------------------------------------------------------------------------


def _pool(x_name: str, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> Window:
    array(x_name, x, floating(x_name, x, 4), (None,) * 4)
    geometry = window(kernel, stride, padding, (1, 1), x.shape[2:])
    small = all(2 * p <= k for p, k in zip(padding, kernel, strict=True))
    require(small, "padding", padding, f"at most half the kernel {kernel}")
    return geometry


def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> Window:
    geometry = avgpool_forward(x, y, kernel, stride, padding)
    require(math.prod(kernel) <= LARGEST_WINDOW, "kernel", kernel, f"at most {LARGEST_WINDOW} cells")
    sized("codes", codes, np.uint8, y.size, is_output=True)
    return geometry


def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Ids
) -> Window:
    geometry = avgpool_backward(dy, dx, kernel, stride, padding, channels)
    require(math.prod(kernel) <= LARGEST_WINDOW, "kernel", kernel, f"at most {LARGEST_WINDOW} cells")
    require(codes is not None, "codes", codes, "an array")
    sized("codes", codes, np.uint8, dy.size)
    return geometry


def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair) -> Window:
    geometry = _pool("x", x, kernel, stride, padding)
    output("y", y, x.dtype, (*x.shape[:2], *geometry.result))
    return geometry


def avgpool_backward(dy: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Ids) -> Window:
    geometry = _pool("dx", dx, kernel, stride, padding)
    output("dx", dx, dx.dtype, dx.shape)
    array("dy", dy, dx.dtype, (*dx.shape[:2], *geometry.result))
    ids("channels", channels, dx.shape[1])
    return geometry
