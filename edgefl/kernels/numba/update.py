"""The steps of SGD and Adam of the numba backend."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from ..checked_functions import Call, prepares
from .compiled import compiled, spelt_out


@prepares
def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Index,
    cols: Index,
    scale: Array | None = None,
    velocity: Array | None = None,
    centre: Array | None = None,
    linear: Array | None = None,
) -> Call:
    w, row_ids, col_ids, block = _block(w, rows, cols)
    factor, *extras = _spelt_out(w, block, scale, velocity, centre, linear)
    return _sgd, (w, grad.reshape(block), hyper, row_ids, col_ids, factor, *extras, False)


@prepares
def nesterov(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Index,
    cols: Index,
    velocity: Array,
    scale: Array | None = None,
    centre: Array | None = None,
    linear: Array | None = None,
) -> Call:
    w, row_ids, col_ids, block = _block(w, rows, cols)
    factor, *extras = _spelt_out(w, block, scale, velocity, centre, linear)
    return _sgd, (w, grad.reshape(block), hyper, row_ids, col_ids, factor, *extras, True)


@prepares
def adam(
    w: Array,
    grad: Array,
    rates: Array,
    rows: Index,
    cols: Index,
    mean: Array,
    square: Array,
    scale: Array | None = None,
    centre: Array | None = None,
    linear: Array | None = None,
) -> Call:
    w, row_ids, col_ids, block = _block(w, rows, cols)
    factor, *extras = _spelt_out(w, block, scale, centre, linear)
    moments = mean.reshape(block), square.reshape(block)
    return _adam, (w, grad.reshape(block), rates, row_ids, col_ids, *moments, factor, *extras)


def _block(w: Array, rows: Index, cols: Index) -> tuple[Array, Array, Array, tuple[int, int]]:
    """Return w, the row and column ids as arrays, and the shape of the compact arrays: one row for each row of w's
    block.
    """
    row_ids, col_ids = spelt_out(rows, w.shape[0]), spelt_out(cols, w.shape[1])
    if cols is None:  # whole rows are one run
        w, col_ids = w.reshape(len(w), 1, w.shape[1] * w.shape[2]), np.zeros(1, np.int32)
    return w, row_ids, col_ids, (len(row_ids), len(col_ids) * w.shape[2])


def _spelt_out(w: Array, block: tuple[int, int], scale: Array | None, *extras: Array | None) -> tuple[Array, ...]:
    """Return the scale, or 1 for None, and the other arrays, or empty arrays for None."""
    none = np.empty((0, 0), w.dtype)
    given = (none if extra is None else extra.reshape(block) for extra in extras)
    return (np.ones(1, w.dtype) if scale is None else scale, *given)


@compiled
def _sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Array,
    cols: Array,
    scale: Array,
    velocity: Array,
    centre: Array,
    linear: Array,
    is_nesterov: bool,
) -> None:
    """Make one step on w[rows, cols, :]. An empty velocity, centre or linear means that there is no such array.

    The block of a row is gathered, so that every pass below runs along contiguous memory.
    """
    lr, momentum, decay, pull = hyper
    inner = w.shape[2]
    values, step = np.empty((len(cols), inner), w.dtype), np.empty(len(cols) * inner, w.dtype)
    value = values.reshape(len(step))
    for j in range(len(rows)):
        for k in range(len(cols)):
            values[k] = w[rows[j], cols[k]]
        for p in range(len(step)):
            step[p] = scale[0] * grad[j, p] + decay * value[p]
        if centre.size:
            for p in range(len(step)):
                step[p] += pull * (value[p] - centre[j, p])
        if linear.size:
            for p in range(len(step)):
                step[p] += linear[j, p]
        if velocity.size and (momentum != 0 or is_nesterov):
            for p in range(len(step)):
                moved = step[p] + momentum * velocity[j, p]
                step[p] = step[p] + momentum * moved if is_nesterov else moved
                velocity[j, p] = moved
        for p in range(len(step)):
            value[p] -= lr * step[p]
        for k in range(len(cols)):
            w[rows[j], cols[k]] = values[k]


@compiled
def _adam(
    w: Array,
    grad: Array,
    rates: Array,
    rows: Array,
    cols: Array,
    mean: Array,
    square: Array,
    scale: Array,
    centre: Array,
    linear: Array,
) -> None:
    """Make one step of Adam, as _sgd does. An empty centre or linear means that there is no such array."""
    mean_share, square_kept, square_share, rate, root, eps, decay, kept, pull = rates
    inner = w.shape[2]
    values, step = np.empty((len(cols), inner), w.dtype), np.empty(len(cols) * inner, w.dtype)
    value = values.reshape(len(step))
    for j in range(len(rows)):
        for k in range(len(cols)):
            values[k] = w[rows[j], cols[k]]
        for p in range(len(step)):
            step[p] = scale[0] * grad[j, p] + decay * value[p]
        if centre.size:
            for p in range(len(step)):
                step[p] += pull * (value[p] - centre[j, p])
        if linear.size:
            for p in range(len(step)):
                step[p] += linear[j, p]
        for p in range(len(step)):
            mean[j, p] += mean_share * (step[p] - mean[j, p])
            square[j, p] = square_kept * square[j, p] + square_share * step[p] * step[p]
            value[p] = value[p] * kept - rate * mean[j, p] / (np.sqrt(square[j, p]) / root + eps)
        for k in range(len(cols)):
            w[rows[j], cols[k]] = values[k]
