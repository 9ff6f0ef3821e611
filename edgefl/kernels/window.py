"""The window of a convolution or a pool: which padded input each of its cells reads, and how large the output is."""

from __future__ import annotations

from typing import NamedTuple

from .arrays import Pair


class Window(NamedTuple):
    """Cell (i, j) of output (r, c) is padded input (r s_h + i d_h, c s_w + j d_w)."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    source: Pair  # input height, width
    result: Pair  # output height, width; below 1 where the window does not fit

    @classmethod
    def of(cls, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, source: Pair) -> Window:
        """The window of these settings over an input of height and width `source`. Nothing is checked."""
        axes = zip(kernel, stride, padding, dilation, source, strict=True)
        height, width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for k, s, p, d, n in axes)
        return cls(kernel, stride, padding, dilation, source, (height, width))
