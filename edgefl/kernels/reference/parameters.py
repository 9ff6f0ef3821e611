"""Gather and scatter of parameters in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, all_or


def take_axes(w: Array, rows: Index, cols: Index, values: Array) -> None:
    """Read the compact values = w[rows, cols, :]."""
    values[...] = w[np.ix_(all_or(rows, w.shape[0]), all_or(cols, w.shape[1]))].reshape(values.shape)


def put_axes(w: Array, rows: Index, cols: Index, values: Array) -> None:
    """Write values to w[rows, cols, :]. The rest of w is untouched."""
    block = np.ix_(all_or(rows, w.shape[0]), all_or(cols, w.shape[1]))
    w[block] = values.reshape(w[block].shape)


def take_flat(w: Array, ids: Array, values: Array) -> None:
    """Read values = w.flat[ids]. ids are uint32."""
    values[...] = w.reshape(-1)[ids].reshape(values.shape)


def put_flat(w: Array, ids: Array, values: Array) -> None:
    """Write values to w.flat[ids]. The rest of w is untouched."""
    w.reshape(-1)[ids] = values.reshape(-1)


def permute(values: Array, order: Array, permuted: Array) -> None:
    """Set permuted to values[order]. order is uint32 and may be in any order."""
    permuted[:] = values[order]
