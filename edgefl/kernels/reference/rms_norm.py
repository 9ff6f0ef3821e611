"""Normalisation by the root mean square (Zhang and Sennrich, 2019) of runs of channels, in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index


def rmsnorm_forward(x: Array, weight: Array, y: Array, inv_rms: Array, offset: float, eps: float) -> None:
    """Compute y = (offset + weight) x inv_rms for each run of len(weight) channels at each position.

    inv_rms  [B, runs, I] = 1 / sqrt(mean of x^2 + eps)
    """
    runs = x.reshape(*inv_rms.shape[:2], len(weight), inv_rms.shape[2])
    inv_rms[...] = 1 / np.sqrt((runs * runs).mean(axis=2) + x.dtype.type(eps))
    gain = weight + weight.dtype.type(offset)
    y[...] = (gain[:, None] * (runs * inv_rms[:, :, None])).reshape(x.shape)


def rmsnorm_backward(
    dy: Array, x: Array, weight: Array, inv_rms: Array, offset: float, dx: Array, dweight: Array, outs: Index
) -> None:
    """Compute dx for all channels, and a compact dweight for `outs`. dx may alias dy."""
    shape = (*inv_rms.shape[:2], len(weight), inv_rms.shape[2])
    sent, normal = dy.reshape(shape), x.reshape(shape) * inv_rms[:, :, None]
    dweight[:] = (sent * normal).sum(axis=(0, 1, 3))[slice(None) if outs is None else outs]
    sent = (weight + weight.dtype.type(offset))[:, None] * sent
    pulled = sent - normal * (sent * normal).mean(axis=2, keepdims=True)
    dx[...] = (inv_rms[:, :, None] * pulled).reshape(x.shape)
