"""Smooth activations and PReLU in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..arrays import Array, Index, all_or

ROOT_2_OVER_PI, CUBIC = math.sqrt(2 / math.pi), 0.044715  # constants of the approximate GELU
FAR = 30.0  # from |x| = FAR on, both GELUs are 0 or x


def activation_forward(x: Array, kind: int, beta: float, threshold: float, y: Array) -> None:
    """Compute y = f(x), where `kind` is the number of f. beta and threshold belong to softplus. y may alias x."""
    value, _ = KINDS[kind]
    y[...] = value(x, beta, threshold)


def activation_backward(
    dy: Array, saved: Array, kind: int, beta: float, threshold: float, dx: Array, channels: Index
) -> None:
    """Compute dx[:, channels] = dy f'(x). Other channels are left alone. saved is f(x) for sigmoid and tanh, else x."""
    chosen = all_or(channels, dy.shape[1])
    _, slope = KINDS[kind]
    dx[:, chosen] = (dy * slope(saved, beta, threshold))[:, chosen]


def elu_forward(x: Array, alpha: float, y: Array) -> None:
    """Set y to x where x > 0, else to alpha (e^x - 1). NaN stays NaN. y may alias x."""
    y[...] = np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


def elu_backward(dy: Array, x: Array, alpha: float, dx: Array, channels: Index) -> None:
    """Set dx[:, channels] to dy where x > 0, else to alpha e^x dy. Other channels are left alone."""
    chosen = all_or(channels, dy.shape[1])
    dx[:, chosen] = (dy * np.where(x <= 0, x.dtype.type(alpha) * np.exp(np.minimum(x, 0)), 1))[:, chosen]


def prelu_forward(x: Array, weight: Array, y: Array) -> None:
    """Compute y = x where x > 0, else weight x, with one weight or one for each channel. y may alias x."""
    y[...] = np.where(x > 0, x, x * _by_channel(weight, x))


def prelu_backward(dy: Array, x: Array, weight: Array, dx: Array, dweight: Array, channels: Index, outs: Index) -> None:
    """Compute dx[:, channels], and dweight [outs]: the sums of dy x where x is not positive.

    Other channels of dx are left alone. dx may alias dy.
    """
    chosen = all_or(channels, dy.shape[1])
    products = np.where(x > 0, 0, dy * x)
    sums = products.sum(axis=(0, *range(2, x.ndim)))
    dweight[:] = (sums if len(weight) > 1 or x.shape[1] == 1 else sums.sum(keepdims=True))[all_or(outs, len(weight))]
    dx[:, chosen] = np.where(x > 0, dy, dy * _by_channel(weight, x))[:, chosen]


def _by_channel(weight: Array, x: Array) -> Array:
    return weight.reshape(1, len(weight), *(1 for _ in x.shape[2:]))


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _normal(x: Array) -> Array:
    """Compute the distribution function of the normal distribution."""
    return np.asarray(0.5 * _erfc(-x / math.sqrt(2)), x.dtype)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _silu_slope(x: Array, beta: float, threshold: float) -> Array:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _gelu_slope(x: Array, beta: float, threshold: float) -> Array:
    x = np.clip(x, -FAR, FAR)
    return _normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _inner(x: Array) -> Array:
    far = np.clip(x, -FAR, FAR)
    return ROOT_2_OVER_PI * (far + CUBIC * far**3)


def _gelu_tanh_slope(x: Array, beta: float, threshold: float) -> Array:
    x = np.clip(x, -FAR, FAR)
    s = _sigmoid(2 * _inner(x))
    return s + 2 * x * s * (1 - s) * ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x)


def _hardsigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


def _hardswish_slope(x: Array, beta: float, threshold: float) -> Array:
    return np.where(x >= 3, 1, np.where(x <= -3, 0, x / 3 + 0.5))


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    v = beta * x
    return np.where(v > threshold, x, (np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v)))) / beta)


def _softplus_slope(x: Array, beta: float, threshold: float) -> Array:
    return np.where(beta * x > threshold, 1, _sigmoid(beta * x))


def _mish_slope(x: Array, beta: float, threshold: float) -> Array:
    t = np.tanh(np.logaddexp(0, x))
    return t + x * (1 - t * t) * _sigmoid(x)


Function = Callable[[Array, float, float], Array]

KINDS: tuple[tuple[Function, Function], ...] = (
    (lambda x, b, t: _sigmoid(x), lambda y, b, t: y * (1 - y)),
    (lambda x, b, t: np.tanh(x), lambda y, b, t: 1 - y * y),
    (lambda x, b, t: x * _sigmoid(x), _silu_slope),
    (lambda x, b, t: x * _normal(x), _gelu_slope),
    (lambda x, b, t: x * _sigmoid(2 * _inner(x)), _gelu_tanh_slope),
    (lambda x, b, t: _hardsigmoid(x), lambda x, b, t: np.where(np.abs(x) < 3, 1 / 6, 0)),
    (lambda x, b, t: x * _hardsigmoid(x), _hardswish_slope),
    (_softplus, _softplus_slope),
    (lambda x, b, t: x * np.tanh(np.logaddexp(0, x)), _mish_slope),
)
"""Each activation in the order of ACTIVATIONS, with its derivative as a function of the saved array."""
