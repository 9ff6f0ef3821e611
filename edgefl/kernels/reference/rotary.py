"""Rotary embedding of positions (Su et al., "RoFormer", 2021), in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def rotary(x: Array, cos: Array, sin: Array, back: bool, y: Array) -> None:
    """Rotate pairs of channels of each run, a channel of the first half with a channel of the second half."""
    runs = x.reshape(x.shape[0], x.shape[1] // len(cos), *cos.shape)
    half = len(cos) // 2
    turned = runs * sin if back else runs
    turned = np.concatenate((-turned[:, :, half:], turned[:, :, :half]), axis=2)
    y[...] = (runs * cos + (-turned if back else turned * sin)).reshape(x.shape)
