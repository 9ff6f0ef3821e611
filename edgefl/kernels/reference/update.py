"""The step of SGD, and the norm that clips it, in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, all_or


def sum_squares(x: Array, total: Array) -> None:
    """total += sum of x^2, in float64."""
    total += np.sum(np.square(x, dtype=np.float64))


def clip_scale(total: Array, max_norm: float, scale: Array) -> None:
    """scale = min(1, max_norm / (sqrt(total) + 1e-6)). Source: torch.nn.utils.clip_grad_norm_."""
    scale[:] = np.minimum(1, max_norm / (np.sqrt(total) + 1e-6))


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
) -> None:
    """One step on the block w[rows, cols, :] of w [R, C, inner]; the rest of w is untouched.

    g = scale grad + decay w + pull (w - centre) + linear ; v = momentum v + g ; w -= lr v
    With momentum 0, v is g, and `velocity` is neither read nor written.
    hyper = lr, momentum, decay, pull; the other arrays are compact, [|rows|, |cols|, inner] in any shape.
    Source: torch.optim.SGD with dampening 0, started from v = 0.
    """
    lr, momentum, decay, pull = hyper
    block = np.ix_(all_or(rows, w.shape[0]), all_or(cols, w.shape[1]))
    shape = w[block].shape
    step = (grad if scale is None else scale * grad).reshape(shape) + decay * w[block]
    if centre is not None:
        step += pull * (w[block] - centre.reshape(shape))
    if linear is not None:
        step += linear.reshape(shape)
    if velocity is not None and momentum:
        velocity.reshape(shape)[:] = momentum * velocity.reshape(shape) + step
        step = velocity.reshape(shape)
    w[block] -= lr * step
