"""Linear layers of the numba backend: products by BLAS through numpy, and a compiled bias gradient."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, split_planes
from ..checked_functions import Call, prepares, run
from .compiled import compiled, spelt_out
from .update import sgd


@prepares
def linear_forward(x: Array, weight: Array, bias: Array | None, y: Array) -> Call:
    return _linear_forward, (x, weight.T, bias, y)


def _linear_forward(x: Array, columns: Array, bias: Array | None, y: Array) -> None:
    np.matmul(x, columns, out=y)
    if bias is not None:
        y += bias


def linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Index, ins: Index) -> None:
    sent, rows = (dy, weight) if outs is None else (dy[:, outs], weight[outs])
    if ins is None:
        np.matmul(sent, rows, out=dx)
    else:
        dx[:, ins] = sent @ rows[:, ins]


def linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Index, ins: Index) -> None:
    sent, seen = dy if outs is None else dy[:, outs], x if ins is None else x[:, ins]
    np.matmul(sent.T, seen, out=dw)


def linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Index, ins: Index, cols: Index) -> None:
    sent, seen = dy if outs is None else dy[:, outs], x if ins is None else x[:, ins]
    run(sgd(w[:, :, None], np.ascontiguousarray(sent.T @ seen), hyper, outs, cols))


@prepares
def channel_sum(dy: Array, out: Array, outs: Index) -> Call:
    return _channel_sum, (split_planes(dy), out, spelt_out(outs, dy.shape[1]))


@compiled
def _channel_sum(dy: Array, out: Array, outs: Array) -> None:
    """Set out[j] to the sum of dy[:, outs[j]], where dy is [B, C, inner]."""
    lanes = np.empty(dy.shape[2])
    for j in range(len(outs)):
        lanes[:] = 0
        for b in range(len(dy)):
            row = dy[b, outs[j]]
            for p in range(len(row)):
                lanes[p] += row[p]
        out[j] = lanes.sum()
