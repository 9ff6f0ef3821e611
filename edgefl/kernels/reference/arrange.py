"""Channels side by side, padded, cropped and resampled planes, repeated cells, exchanged axes, and rows of a table.

All of it is in plain numpy.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Pair, all_or
from ..table import RESAMPLINGS
from .stored_weight import stored_weight


def put_channels(x: Array, first: int, y: Array) -> None:
    """Write x to y[:, first : first + C]. Other channels are left alone."""
    y[:, first : first + x.shape[1]] = x


def get_channels(y: Array, first: int, x: Array) -> None:
    """Read x from y[:, first : first + C]."""
    x[...] = y[:, first : first + x.shape[1]]


def pad_planes(x: Array, top: int, left: int, y: Array) -> None:
    """Set y to x with its corner at (top, left), and to zero around it."""
    y[...] = 0
    y[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x


def crop_planes(y: Array, top: int, left: int, x: Array) -> None:
    """Set x to the part of y that has its corner at (top, left)."""
    x[...] = y[:, :, top : top + x.shape[2], left : left + x.shape[3]]


def upsample_forward(x: Array, scale: Pair, y: Array) -> None:
    """Set y to x, with each cell repeated scale[0] times downwards and scale[1] times to the right."""
    y[...] = x.repeat(scale[0], axis=2).repeat(scale[1], axis=3)


def upsample_backward(dy: Array, scale: Pair, dx: Array) -> None:
    """Set each cell of dx to the sum of dy over the cells that repeat it."""
    batch, channels, height, width = dx.shape
    dx[...] = dy.reshape(batch, channels, height, scale[0], width, scale[1]).sum(axis=(3, 5))


def resample_forward(x: Array, mode: int, top: int, left: int, y: Array) -> None:
    """Set y to x, sampled anew along both axes of its planes in the way of this number in RESAMPLINGS."""
    rows, columns = _weights(mode, x.shape[2:], y.shape[2:], (top, left))
    y[...] = rows @ x @ columns.T


def resample_backward(dy: Array, mode: int, top: int, left: int, dx: Array) -> None:
    """Set dx to the sums of dy by the weights with which each cell of x is part of the cells of y."""
    rows, columns = _weights(mode, dx.shape[2:], dy.shape[2:], (top, left))
    dx[...] = rows.T @ dy @ columns


def _weights(mode: int, size: tuple[int, ...], result: tuple[int, ...], before: Pair) -> tuple[Array, Array]:
    """Return for both axes the matrices [cells of the result, cells]."""
    way = RESAMPLINGS[mode]
    rows = np.eye(size[0]) if way == "flip" else _weights_of_axis(way, size[0], result[0], before[0])
    return rows, _weights_of_axis(way, size[1], result[1], before[1])


def _weights_of_axis(way: str, size: int, result: int, before: int) -> Array:
    position, weights = np.arange(result), np.zeros((result, size))
    if way in ("half_pixel", "aligned"):
        place = position * (size - 1) / max(result - 1, 1)
        if way == "half_pixel":
            place = np.maximum((position + 0.5) * size / result - 0.5, 0)
        low = np.minimum(place.astype(np.int64), size - 1)
        np.add.at(weights, (position, low), 1 - (place - low))
        np.add.at(weights, (position, np.minimum(low + 1, size - 1)), place - low)
        return weights
    cell = position - before
    mirrored = size - 1 - np.abs(size - 1 - np.abs(cell))
    cells = {"reflect": mirrored, "replicate": cell.clip(0, size - 1), "circular": cell % size, "flip": size - 1 - cell}
    weights[position, cells[way]] = 1
    return weights


def transpose(x: Array, y: Array) -> None:
    """Set y[b, c, r] to x[b, r, c]."""
    y[...] = x.swapaxes(1, 2)


def embedding_forward(ids: Array, weight: Array, y: Array) -> None:
    """Set y[b, :, l] to weight[ids[b, l]]."""
    y[...] = weight[ids.astype(np.int64)].swapaxes(1, 2)


def embedding_stored(ids: Array, codes: Array, row_scale: Array | None, col_scale: Array | None, y: Array) -> None:
    """Set y[b, :, l] to weight[ids[b, l]], with the weight of the codes."""
    y[...] = stored_weight(codes, row_scale, col_scale)[ids.astype(np.int64)].swapaxes(1, 2)


def embedding_backward(dy: Array, ids: Array, dweight: Array, padding: int, cols: Index) -> None:
    """Sum dy[b, cols, l] for each row over the positions with its id, in the order of images and positions.

    Positions whose id is `padding` are left out.
    """
    rows = ids.astype(np.int64).ravel()
    sent = dy[:, all_or(cols, dy.shape[1])].swapaxes(1, 2).reshape(rows.size, dweight.shape[1])
    dweight[...] = 0
    np.add.at(dweight, rows[rows != padding], sent[rows != padding])
