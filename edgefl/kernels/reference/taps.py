"""The reads of a window's taps in plain numpy, shared by convolution and pool.

A tap (i, j) sees the padded input through one strided view that has the extents of the output. So forward, input
gradient and weight gradient are one line each: read, scatter, correlate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import Array
from ..window import Window


def pad(x: Array, window: Window, fill: float = 0.0, beyond: float | None = None) -> Array:
    """Pad x with `fill`, and behind that with `beyond` (None: `fill`), as far as a window that is cut reaches."""
    (pad_h, pad_w), (more_h, more_w) = window.padding, window.overhang
    padded = np.pad(x, ((0, 0), (0, 0), (pad_h, pad_h), (pad_w, pad_w)), constant_values=fill)
    behind = fill if beyond is None else beyond
    return np.pad(padded, ((0, 0), (0, 0), (0, more_h), (0, more_w)), constant_values=behind)


def inside(padded: Array, window: Window) -> Array:
    (pad_h, pad_w), (height, width) = window.padding, window.source
    return padded[:, :, pad_h : pad_h + height, pad_w : pad_w + width]


def taps(padded: Array, window: Window) -> Iterator[tuple[int, int, Array]]:
    """Yield (i, j, view [B, C, out_h, out_w]) for each cell of the window. Writing to a view writes to `padded`."""
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            top, left = i * window.dilation[0], j * window.dilation[1]
            bottom = top + window.stride[0] * (window.result[0] - 1) + 1
            right = left + window.stride[1] * (window.result[1] - 1) + 1
            yield i, j, padded[:, :, top : bottom : window.stride[0], left : right : window.stride[1]]
