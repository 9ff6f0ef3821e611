"""Masked Linear layers in plain numpy: a dense weight is filled from the slots, and gradients are read at the slots."""

from __future__ import annotations

import numpy as np

from .. import weight_structure as structures
from ..arrays import Array


def sparse_linear_build(
    mask: Array, structure: Array, order: Array, structure_t: Array | None, order_t: Array | None, batch: int
) -> None:
    """Write the structures of the weights that `mask` [O, I] keeps, and the weight of each slot.

    order_t has the forward slot of each transposed slot.
    """
    kept = mask != 0
    structure[:], order[:] = structures.build(kept, batch, False)
    if structure_t is not None and order_t is not None:
        structure_t[:], turned = structures.build(kept.T, batch, True)
        ins, outs = np.divmod(turned.astype(np.int64), max(len(mask), 1))
        slots = np.argsort(order)
        order_t[:] = slots[np.searchsorted(order, outs * mask.shape[1] + ins, sorter=slots)]


def sparse_linear_forward(x: Array, structure: Array, values: Array, bias: Array | None, y: Array) -> None:
    """Compute y = x weight^T + bias."""
    y[:] = x @ _weight(structure, values, y.shape[1], x.shape[1]).T
    if bias is not None:
        y += bias


def sparse_linear_grad_input(dy: Array, structure: Array, values: Array, dx: Array) -> None:
    """Compute dx = dy weight."""
    dx[:] = dy @ _weight(structure, values, dy.shape[1], dx.shape[1])


def sparse_linear_grad_weight(x: Array, dy: Array, structure: Array, gradients: Array) -> None:
    """Set gradients to (dy^T x) at the slots."""
    outs, ins = structures.decode(structure, dy.shape[1], x.shape[1], len(gradients), False)
    gradients[:] = (dy.T @ x)[outs, ins]


def _weight(structure: Array, values: Array, outs: int, ins: int) -> Array:
    weight = np.zeros((outs, ins), values.dtype)
    weight[structures.decode(structure, outs, ins, len(values), True)] = values
    return weight
