"""The window of a convolution or a pool: the padded input that each of its cells reads, and the size of the output."""

from __future__ import annotations

from typing import NamedTuple

from .arrays import Pair


class Window(NamedTuple):
    """A window whose cell (i, j) of output (r, c) reads the padded input at (r s_h + i d_h, c s_w + j d_w)."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    source: Pair  # input height and width
    result: Pair  # output height and width, below 1 where the window does not fit

    @classmethod
    def of(cls, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, source: Pair) -> Window:
        """Return the window of these settings over an input of height and width `source`. Nothing is checked."""
        axes = zip(kernel, stride, padding, dilation, source, strict=True)
        height, width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for k, s, p, d, n in axes)
        return cls(kernel, stride, padding, dilation, source, (height, width))

    @property
    def ceiled(self) -> Window:
        """This window with all outputs that begin in the input or the padding before it. The last ones may be cut."""
        axes = zip(self.kernel, self.stride, self.padding, self.source, strict=True)
        height, width = (_ceiled(n + 2 * p - k, n + p, s) for k, s, p, n in axes)
        return self._replace(result=(height, width))

    @property
    def overhang(self) -> Pair:
        """The distance by which the last window of an axis reaches past the padding."""
        axes = zip(self.kernel, self.stride, self.padding, self.dilation, self.source, self.result, strict=True)
        height, width = (max(0, (r - 1) * s + d * (k - 1) + 1 - n - 2 * p) for k, s, p, d, n, r in axes)
        return height, width

    def fitting(self, result: Pair) -> Window:
        """Return this window if it has such a result, else this window rounded up."""
        return self if self.result == tuple(result) else self.ceiled


def _ceiled(room: int, end: int, stride: int) -> int:
    """Return the number of windows along an axis, rounded up.

    room  how far a whole window can move
    end   where the padding behind begins, counted from the padding before
    """
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= end else count
