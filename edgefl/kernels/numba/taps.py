"""The reads of a window's taps for the numba backend, shared by convolution and pool."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..window import Window
from .compiled import compiled

ROW = 1024  # floats of one row of sums: samples with small maps share a row, and such rows stay in the L1 cache


def walk(window: Window) -> tuple[Array, Array, Array]:
    """Return the spans of rows, the spans of columns and the geometry in the form that the loops take."""
    geometry = np.array([*window.stride, *window.dilation, *window.padding], np.int64)
    return _spans(window, 0), _spans(window, 1), geometry


def _spans(window: Window, axis: int) -> Array:
    """Return [kernel, 2]: for each tap of the axis, the outputs [first, last) that read inside the input."""
    stride, size = window.stride[axis], window.source[axis]
    offset = np.arange(window.kernel[axis]) * window.dilation[axis] - window.padding[axis]
    bounds = np.stack([-(offset // stride), -((offset - size) // stride)], axis=1)
    return np.clip(bounds, 0, window.result[axis])


@compiled
def gather_taps(x: Array, planes: Array, rows: Array, cols: Array, geometry: Array, taps: Array) -> None:
    """Gather taps[k, b, r, c], the cell of x [B, C, h, w] that tap k of output (r, c) reads, from plane planes[i].

    k counts (i, kh, kw). A tap outside the input is not written: the caller has cleared `taps`, which may have room for
    more samples.
    """
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    k = 0
    for i in planes:
        for kh in range(len(rows)):
            for kw in range(len(cols)):
                first, count = np.uintp(cols[kw, 0]), np.uintp(cols[kw, 1] - cols[kw, 0])
                start, step = np.uintp(cols[kw, 0] * stride_w + kw * dilation_w - padding_w), np.uintp(stride_w)
                for b in range(len(x)):
                    for r in range(rows[kh, 0], rows[kh, 1]):
                        row = r * stride_h + kh * dilation_h - padding_h
                        if stride_w == 1:
                            for c in range(count):
                                taps[k, b, r, first + c] = x[b, i, row, start + c]
                        else:
                            for c in range(count):
                                taps[k, b, r, first + c] = x[b, i, row, start + c * step]
                k += 1


@compiled
def scatter_taps(taps: Array, rows: Array, cols: Array, geometry: Array, dx: Array, plane: int) -> None:
    """Add taps [kh kw, B, r, c] to dx[:, plane] at the cells that they read: the transpose of gather_taps for one
    plane.
    """
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    for kh in range(len(rows)):
        for kw in range(len(cols)):
            k = kh * len(cols) + kw
            first, count = np.uintp(cols[kw, 0]), np.uintp(cols[kw, 1] - cols[kw, 0])
            start, step = np.uintp(cols[kw, 0] * stride_w + kw * dilation_w - padding_w), np.uintp(stride_w)
            for b in range(len(dx)):
                for r in range(rows[kh, 0], rows[kh, 1]):
                    row = r * stride_h + kh * dilation_h - padding_h
                    if stride_w == 1:
                        for c in range(count):
                            dx[b, plane, row, start + c] += taps[k, b, r, first + c]
                    else:
                        for c in range(count):
                            dx[b, plane, row, start + c * step] += taps[k, b, r, first + c]
