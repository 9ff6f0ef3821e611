"""Pooling of the numba backend. The loops take the arguments of the loops in convolution.py, with a dilation of 1."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Pair, planes
from ..checked_functions import Call, prepares
from ..reference.pool import pool_cells
from ..window import Window
from .compiled import compiled, spelt_out
from .taps import ROW, gather_taps, scatter_taps, walk


def _maps(x: Array) -> Array:
    """Reshape x [B, C, h, w] to [B C, 1, h, w]."""
    return x.reshape(x.shape[0] * x.shape[1], 1, *x.shape[2:])


@prepares
def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> Call:
    window = Window.of(kernel, stride, padding, (1, 1), x.shape[2:]).fitting(y.shape[2:])
    kept = np.empty(y.shape, np.uint8) if codes is None else codes.reshape(y.shape)
    return _maxpool_forward, (_maps(x), planes(y), planes(kept), *walk(window))


@compiled
def _maxpool_forward(x: Array, y: Array, codes: Array, rows: Array, cols: Array, geometry: Array) -> None:
    """Compute y [P, h w] and codes of planes x [P, 1, ...]. The first of equal cells wins, and a NaN always wins.

    Cells outside the input are -inf and have no code. A window of nothing but -inf keeps the code of its first cell
    inside.
    """
    height, width, cells = rows.max(), cols.max(), len(rows) * len(cols)
    held = max(ROW // (height * width), 1)
    taps = np.full((cells, held, height, width), -np.inf, x.dtype)
    first_code = np.zeros((height, width), np.uint8)
    for k in range(cells - 1, -1, -1):
        (top, bottom), (left, right) = rows[k // len(cols)], cols[k % len(cols)]
        first_code[top:bottom, left:right] = k
    for start in range(0, len(x), held):
        some = x[start : start + held]
        gather_taps(some, np.zeros(1, np.int64), rows, cols, geometry, taps)
        for p in range(len(some)):
            codes[start + p] = first_code.reshape(-1)
        best, winner = y[start : start + held].reshape(-1), codes[start : start + held].reshape(-1)
        best[:] = -np.inf
        for k in range(cells):
            keep_larger(taps[k].reshape(-1)[: len(best)], np.uint8(k), best, winner)


@compiled
def keep_larger(seen: Array, code: np.uint8, best: Array, winner: Array) -> None:
    """Set best to seen, and winner to code, where seen is larger or NaN. Inside its caller this loop took 3 times as
    long.
    """
    for p in range(len(seen)):
        value, old, kept = seen[p], best[p], winner[p]
        is_better = (value > old) | (value != value)
        best[p] = value if is_better else old
        winner[p] = code if is_better else kept


@prepares
def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Index
) -> Call:
    window = Window.of(kernel, stride, padding, (1, 1), dx.shape[2:]).fitting(dy.shape[2:])
    chosen, geometry = spelt_out(channels, dx.shape[1]), walk(window)[2]
    return _maxpool_backward, (dy, codes.reshape(dy.shape), dx, kernel[1], geometry, chosen)


@compiled
def _maxpool_backward(dy: Array, codes: Array, dx: Array, kernel_w: int, geometry: Array, channels: Array) -> None:
    """Set dx[:, channels] to dy at the winning cells, and to 0 elsewhere."""
    stride_h, stride_w, _, _, padding_h, padding_w = geometry
    row_of, col_of = np.arange(256) // kernel_w - padding_h, np.arange(256) % kernel_w - padding_w
    for b in range(len(dy)):
        for channel in channels:
            target = dx[b, channel]
            target[:] = 0
            for r in range(dy.shape[2]):
                sent, code = dy[b, channel, r], codes[b, channel, r]
                for c in range(len(sent)):
                    target[r * stride_h + row_of[code[c]], c * stride_w + col_of[code[c]]] += sent[c]


@prepares
def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> Call:
    window = Window.of(kernel, stride, padding, (1, 1), x.shape[2:]).fitting(y.shape[2:])
    cells = pool_cells(window, count_include_pad, y.dtype)[0, 0]
    return _avgpool_forward, (_maps(x), planes(y), *walk(window), cells)


@compiled
def _avgpool_forward(x: Array, y: Array, rows: Array, cols: Array, geometry: Array, cells: Array) -> None:
    """Compute y [P, h w] = window sum / cells [h, w] of planes x [P, 1, ...]."""
    taps = np.zeros((len(rows) * len(cols), 1, *cells.shape), x.dtype)
    for plane in range(len(y)):
        total = y[plane]
        total[:] = 0
        gather_taps(x[plane : plane + 1], np.zeros(1, np.int64), rows, cols, geometry, taps)
        for k in range(len(taps)):
            seen = taps[k].reshape(-1)
            for p in range(len(seen)):
                total[p] += seen[p]
        total /= cells.reshape(-1)


@prepares
def avgpool_backward(
    dy: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, channels: Index
) -> Call:
    window = Window.of(kernel, stride, padding, (1, 1), dx.shape[2:]).fitting(dy.shape[2:])
    cells = pool_cells(window, count_include_pad, dy.dtype)[0, 0]
    return _avgpool_backward, (dy, dx, *walk(window), cells, spelt_out(channels, dx.shape[1]))


@compiled
def _avgpool_backward(
    dy: Array, dx: Array, rows: Array, cols: Array, geometry: Array, cells: Array, channels: Array
) -> None:
    """Set each cell of dx[:, channels] to the sum of dy / cells over the windows that hold the cell."""
    taps = np.empty((len(rows) * len(cols), 1, *cells.shape), dy.dtype)
    for b in range(len(dy)):
        for channel in channels:
            taps[:] = dy[b, channel] / cells
            dx[b, channel] = 0
            scatter_taps(taps, rows, cols, geometry, dx[b : b + 1], channel)
