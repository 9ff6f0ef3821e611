"""The step of SGD of the numba backend."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from ..functions import Call, prepares
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
    row_ids, col_ids = spelt_out(rows, w.shape[0]), spelt_out(cols, w.shape[1])
    if cols is None:  # whole rows are one run
        w, col_ids = w.reshape(len(w), 1, w.shape[1] * w.shape[2]), np.zeros(1, np.int32)
    block, none = (len(row_ids), len(col_ids) * w.shape[2]), np.empty((0, 0), w.dtype)
    extras = (none if extra is None else extra.reshape(block) for extra in (velocity, centre, linear))
    factor = np.ones(1, w.dtype) if scale is None else scale
    return _sgd, (w, grad.reshape(block), hyper, row_ids, col_ids, factor, *extras)


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
) -> None:
    """One step on w[rows, cols, :]; an empty velocity, centre or linear stands for none.

    A row's block is gathered, so that every pass below runs along contiguous memory.
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
        if velocity.size and momentum != 0:
            for p in range(len(step)):
                step[p] += momentum * velocity[j, p]
                velocity[j, p] = step[p]
        for p in range(len(step)):
            value[p] -= lr * step[p]
        for k in range(len(cols)):
            w[rows[j], cols[k]] = values[k]
