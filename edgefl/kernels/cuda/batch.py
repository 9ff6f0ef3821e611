"""Batches: rows and labels picked by index, channels kept, images side by side: csrc/cuda/batch.cuh."""

from __future__ import annotations

import math

import numpy as np

from .arrange import transposed
from .launch import KernelArray, Launches, chosen, launch
from .structs import declare

declare(
    {
        "GatherRowsArgs: gather_rows_{pixels,floats} of gather_rows": "src index out rows width count scale shift",
        "gather_labels": "src index out rows count",
        "take_channels": "x out chosen:Chosen batch",
    }
)


def gather_rows(src: KernelArray, index: KernelArray, scale: float, shift: float, out: KernelArray) -> Launches:
    kernel = "gather_rows_pixels" if src.dtype == np.uint8 else "gather_rows_floats"
    extents = {"rows": src.shape[0], "width": math.prod(src.shape[1:]), "count": index.size}
    return [launch(kernel, out.size, src=src, index=index, out=out, **extents, scale=scale, shift=shift)]


def gather_labels(src: KernelArray, index: KernelArray, out: KernelArray) -> Launches:
    return [launch("gather_labels", out.size, src=src, index=index, out=out, rows=src.size, count=out.size)]


def take_channels(x: KernelArray, channels: KernelArray | None, out: KernelArray) -> Launches:
    return [launch("take_channels", out.size, x=x, out=out, chosen=chosen(channels, x), batch=x.shape[0])]


def to_lanes(x: KernelArray, lanes: int, y: KernelArray) -> Launches:
    batch, inner = x.shape[0], math.prod(x.shape[1:])
    return transposed(x, y, batch // lanes, lanes, inner)


def from_lanes(y: KernelArray, lanes: int, x: KernelArray) -> Launches:
    batch, inner = x.shape[0], math.prod(x.shape[1:])
    return transposed(y, x, batch // lanes, inner, lanes)
