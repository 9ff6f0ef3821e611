"""The steps of SGD and Adam, the norm that clips them, and the sums of a server, in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, all_or


def sum_squares(x: Array, total: Array) -> None:
    """Add the sum of x^2 to total, in float64."""
    total += np.sum(np.square(x, dtype=np.float64))


def sum_squared_changes(x: Array, before: Array, total: Array, copy: Array | None = None) -> None:
    """Add the sum of (x - before)^2 to total, in float64. If a copy is given, copy x into it."""
    if copy is not None:
        copy[...] = x
    total += np.sum(np.square(np.subtract(x, before, dtype=np.float64)))


def add_scaled(
    total: Array,
    x: Array,
    factors: Array,
    second: Array | None = None,
    third: Array | None = None,
    fourth: Array | None = None,
) -> None:
    """Add each array that is given times its factor to total, in float64 and in their order. A product is rounded
    before it is added.
    """
    for values, factor in zip((x, second, third, fourth), factors, strict=True):
        if values is not None:
            total += values.astype(np.float64) * factor


def clip_scale(total: Array, max_norm: float, scale: Array) -> None:
    """Compute scale = min(1, max_norm / (sqrt(total) + 1e-6)). This is torch.nn.utils.clip_grad_norm_."""
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
    """Make one step on the block w[rows, cols, :] of w [R, C, inner]. The rest of w is untouched.

        g = scale grad + decay w + pull (w - centre) + linear
        v = momentum v + g
        w -= lr v

    With momentum 0, v is g, and `velocity` is neither read nor written. hyper is lr, momentum, decay, pull. The other
    arrays are compact: they hold [|rows|, |cols|, inner] in any shape. This is torch.optim.SGD with dampening 0,
    started from v = 0.
    """
    lr, momentum, decay, pull = hyper
    block = np.ix_(all_or(rows, w.shape[0]), all_or(cols, w.shape[1]))
    step = _gradient(w[block], grad, scale, decay, (pull, centre), linear)
    if velocity is not None and momentum:
        velocity.reshape(step.shape)[:] = momentum * velocity.reshape(step.shape) + step
        step = velocity.reshape(step.shape)
    w[block] -= lr * step


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
) -> None:
    """Make one step as sgd does, but with w -= lr (g + momentum v) and the new v: torch.optim.SGD with nesterov."""
    lr, momentum, decay, pull = hyper
    block = np.ix_(all_or(rows, w.shape[0]), all_or(cols, w.shape[1]))
    step = _gradient(w[block], grad, scale, decay, (pull, centre), linear)
    velocity.reshape(step.shape)[:] = momentum * velocity.reshape(step.shape) + step
    w[block] -= lr * (step + momentum * velocity.reshape(step.shape))


def begin_adam(settings: Array, steps: Array, rates: Array) -> None:
    """Add 1 to steps, and compute the rates of this step of Adam.

    They are 1 - beta1, beta2, 1 - beta2, lr / (1 - beta1^t), sqrt(1 - beta2^t), eps, the decay in the gradient, the
    factor that keeps the weights, and pull.
    """
    lr, beta1, beta2, eps, decay, decoupled, pull = settings
    steps += 1
    moments = 1 - beta1, beta2, 1 - beta2, lr / (1 - beta1 ** steps[0]), np.sqrt(1 - beta2 ** steps[0])
    rates[:] = *moments, eps, 0 if decoupled else decay, 1 - lr * decay if decoupled else 1, pull


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
) -> None:
    """Make one step on the block w[rows, cols, :]. Arrays are as in sgd, and begin_adam has made the rates.

    This is torch.optim.Adam, or AdamW, without amsgrad and in torch's order of operations.
    """
    mean_share, square_kept, square_share, step, root, eps, decay, kept, pull = rates
    block = np.ix_(all_or(rows, w.shape[0]), all_or(cols, w.shape[1]))
    g = _gradient(w[block], grad, scale, decay, (pull, centre), linear)
    mean, square = mean.reshape(g.shape), square.reshape(g.shape)
    mean += mean_share * (g - mean)
    square[:] = square_kept * square + square_share * g * g
    w[block] = w[block] * kept - step * mean / (np.sqrt(square) / root + eps)


def _gradient(
    w: Array, grad: Array, scale: Array | None, decay: float, pull: tuple[float, Array | None], linear: Array | None
) -> Array:
    """Return the gradient g of the block w, in the shape of w."""
    g: Array = (grad if scale is None else scale * grad).reshape(w.shape) + decay * w
    strength, centre = pull
    if centre is not None:
        g += strength * (w - centre.reshape(w.shape))
    if linear is not None:
        g += linear.reshape(w.shape)
    return g
