"""Linear layers and bias gradients in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, all_or


def linear_forward(x: Array, weight: Array, bias: Array | None, y: Array) -> None:
    """Compute y = x weight^T + bias."""
    y[:] = x @ weight.T
    if bias is not None:
        y += bias


def linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Index, ins: Index) -> None:
    """Compute dx[:, ins] = dy[:, outs] weight[outs, ins]. Other columns of dx are left alone."""
    rows, columns = all_or(outs, len(weight)), all_or(ins, weight.shape[1])
    dx[:, columns] = dy[:, rows] @ weight[np.ix_(rows, columns)]


def linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Index, ins: Index) -> None:
    """Compute the compact dw = dy[:, outs]^T x[:, ins]."""
    dw[:] = dy[:, all_or(outs, dy.shape[1])].T @ x[:, all_or(ins, x.shape[1])]


def linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Index, ins: Index, cols: Index) -> None:
    """Compute w[outs, cols] -= lr (dw + decay w[outs, cols]) with dw = dy[:, outs]^T x[:, ins]. The rest of w is
    untouched.
    """
    block = np.ix_(all_or(outs, len(w)), all_or(cols, w.shape[1]))
    dw = dy[:, all_or(outs, dy.shape[1])].T @ x[:, all_or(ins, x.shape[1])]
    w[block] -= hyper[0] * (dw + hyper[2] * w[block])


def channel_sum(dy: Array, out: Array, outs: Index) -> None:
    """Set out[j] to the sum of dy[:, outs[j]] over batch and pixels: a bias gradient."""
    out[:] = dy[:, all_or(outs, dy.shape[1])].sum(axis=(0, *range(2, dy.ndim)))
