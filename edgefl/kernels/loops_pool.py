"""Pooling for the numba backend. Arguments and style as in loops_conv.py; dilation is 1."""

from __future__ import annotations

import numpy as np

from .checks import Array
from .loops_conv import ROW, compiled, gather_taps, scatter_taps


@compiled
def keep_larger(seen: Array, code: np.uint8, best: Array, winner: Array) -> None:
    """best = seen and winner = code where seen is larger or NaN. Inside its caller this loop ran 3 times longer."""
    for p in range(len(seen)):
        value, old, kept = seen[p], best[p], winner[p]
        is_better = (value > old) | (value != value)
        best[p] = value if is_better else old
        winner[p] = code if is_better else kept


@compiled
def maxpool_forward(x: Array, y: Array, codes: Array, rows: Array, cols: Array, geometry: Array) -> None:
    """y [P, h w] and codes of planes x [P, 1, ...]; the first of equals wins, a NaN always wins.

    Cells outside are -inf and no code: a window of nothing else keeps the code of its first cell inside.
    """
    height, width, cells = rows.max(), cols.max(), len(rows) * len(cols)
    planes = max(ROW // (height * width), 1)
    taps = np.full((cells, planes, height, width), -np.inf, x.dtype)
    first_code = np.zeros((height, width), np.uint8)
    for k in range(cells - 1, -1, -1):
        (top, bottom), (left, right) = rows[k // len(cols)], cols[k % len(cols)]
        first_code[top:bottom, left:right] = k
    for start in range(0, len(x), planes):
        some = x[start : start + planes]
        gather_taps(some, np.zeros(1, np.int64), rows, cols, geometry, taps)
        for p in range(len(some)):
            codes[start + p] = first_code.reshape(-1)
        best, winner = y[start : start + planes].reshape(-1), codes[start : start + planes].reshape(-1)
        best[:] = -np.inf
        for k in range(cells):
            keep_larger(taps[k].reshape(-1)[: len(best)], np.uint8(k), best, winner)


@compiled
def maxpool_backward(dy: Array, codes: Array, dx: Array, kernel_w: int, geometry: Array, channels: Array) -> None:
    """dx[:, channels] = dy at the winning cells, 0 elsewhere."""
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


@compiled
def avgpool_forward(x: Array, y: Array, rows: Array, cols: Array, geometry: Array, cells: Array) -> None:
    """y [P, h w] = window sum / cells [h, w] of planes x [P, 1, ...]."""
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


@compiled
def avgpool_backward(
    dy: Array, dx: Array, rows: Array, cols: Array, geometry: Array, cells: Array, channels: Array
) -> None:
    """dx[:, channels] = dy / cells summed over the windows that hold a cell."""
    taps = np.empty((len(rows) * len(cols), 1, *cells.shape), dy.dtype)
    for b in range(len(dy)):
        for channel in channels:
            taps[:] = dy[b, channel] / cells
            dx[b, channel] = 0
            scatter_taps(taps, rows, cols, geometry, dx[b : b + 1], channel)
