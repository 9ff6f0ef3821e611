"""Convolution in plain numpy, as sums over the taps of a window. It is not fast."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Pair
from ..window import Window
from .stored_weight import stored_weight
from .taps import inside, pad, taps


def _grouped(x: Array, groups: int) -> Array:
    """Reshape x [B, C, h, w] to [B, groups, C / groups, h w]."""
    batch, channels, height, width = x.shape
    return x.reshape(batch, groups, channels // groups, height * width)


def conv2d_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None:
    """Compute y[b, o] = bias[o] + the sum of weight[o, i, tap] x[b, i] at the tap, over o's group of inputs i and the
    taps.
    """
    window = Window.of(weight.shape[2:], stride, padding, dilation, x.shape[2:])
    taps_of = weight.reshape(groups, -1, *weight.shape[1:])
    total = np.zeros_like(_grouped(y, groups))
    for i, j, seen in taps(pad(x, window), window):
        total += taps_of[..., i, j] @ _grouped(seen, groups)
    y[:] = total.reshape(y.shape)
    if bias is not None:
        y += bias[:, None, None]


def conv2d_grad_input(
    dy: Array,
    weight: Array,
    dx: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index,
    ins: Index,
) -> None:
    """Set dx[:, ins] to the transposed convolution of dy[:, outs] with weight[outs]. Other channels of dx are left
    alone.
    """
    window = Window.of(weight.shape[2:], stride, padding, dilation, dx.shape[2:])
    sent, taps_of = _only(dy, 1, outs), _only(weight, 0, outs).reshape(groups, -1, *weight.shape[1:])
    padded = pad(np.zeros_like(dx), window)
    for i, j, target in taps(padded, window):
        target += (taps_of[..., i, j].swapaxes(1, 2) @ _grouped(sent, groups)).reshape(target.shape)
    chosen = slice(None) if ins is None else ins
    dx[:, chosen] = inside(padded, window)[:, chosen]


def pointwise_forward(
    x: Array, codes: Array, row_scale: Array | None, col_scale: Array | None, bias: Array | None, y: Array
) -> None:
    """Compute y[b, o, n] = bias[o] + the sum of weight[o, i] x[b, i, n], with the weight of the codes."""
    y[...] = stored_weight(codes, row_scale, col_scale) @ x
    if bias is not None:
        y += bias[:, None]


def pointwise_grad_input(
    dy: Array, codes: Array, row_scale: Array | None, col_scale: Array | None, dx: Array, outs: Index, ins: Index
) -> None:
    """Set dx[:, ins] to the weight's transpose times dy[:, outs]. Other channels of dx are left alone."""
    chosen = slice(None) if ins is None else ins
    dx[:, chosen] = (stored_weight(codes, row_scale, col_scale).T @ _only(dy, 1, outs))[:, chosen]


def _only(array: Array, axis: int, ids: Index) -> Array:
    """Return the array with 0 everywhere outside `ids` on the axis."""
    if ids is None:
        return array
    kept = np.zeros_like(array)
    where = (slice(None),) * axis + (ids,)
    kept[where] = array[where]
    return kept


def conv2d_grad_weight(
    x: Array,
    dy: Array,
    dw: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index,
    ins: Index,
    in_channels: int,
) -> None:
    """Compute the compact dw[j, i, tap]: the sum over batch and pixels of dy[:, outs[j]] times x[:, ins[i]] at the tap.

    x holds the in_channels planes of the layer, or fewer if the caller saved only some. `ins` counts among the planes
    of x.
    """
    window = Window.of(dw.shape[2:], stride, padding, dilation, x.shape[2:])
    rows = np.arange(dy.shape[1]) if outs is None else outs
    sent = _grouped(dy[:, rows], 1)[:, 0]
    if groups == 1:
        x = x if ins is None else x[:, ins]
        for i, j, seen in taps(pad(x, window), window):
            dw[:, :, i, j] = np.tensordot(sent, _grouped(seen, 1)[:, 0], axes=((0, 2), (0, 2)))
        return
    planes = planes_read(rows, dy.shape[1] // groups, in_channels // groups, x.shape[1] == in_channels)
    for i, j, seen in taps(pad(x, window), window):
        read = seen[:, planes].reshape(len(x), *planes.shape, sent.shape[2])
        dw[:, :, i, j] = np.einsum("bjp,bjip->ji", sent, read)


def planes_read(rows: Array, outs_per_group: int, ins_per_group: int, holds_all: bool) -> Array:
    """Return the planes of x that each output channel reads, as [|rows|, ins_per_group]."""
    group = rows // outs_per_group
    first = group if holds_all else np.searchsorted(np.unique(group), group)
    return first[:, None] * ins_per_group + np.arange(ins_per_group)
