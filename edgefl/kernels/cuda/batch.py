"""Batches: rows and labels picked by index, channels kept, images side by side: csrc/cuda/batch.cuh."""

from __future__ import annotations

import math

import numpy as np

from .arrange import transposed
from .launch import At, Launches, chosen, launch


def gather_rows(src: At, index: At, scale: float, shift: float, out: At) -> Launches:
    kernel = "gather_rows_pixels" if src.dtype == np.uint8 else "gather_rows_floats"
    width = math.prod(src.shape[1:])
    fields = src, index, out, src.shape[0], width, index.size, float(scale), float(shift)
    return [launch(kernel, out.size, *fields)]


def gather_labels(src: At, index: At, out: At) -> Launches:
    return [launch("gather_labels", out.size, src, index, out, src.size, out.size)]


def take_channels(x: At, channels: At | None, out: At) -> Launches:
    return [launch("take_channels", out.size, x, out, *chosen(channels, x), x.shape[0])]


def to_lanes(x: At, lanes: int, y: At) -> Launches:
    batch, inner = x.shape[0], math.prod(x.shape[1:])
    return transposed(x, y, batch // lanes, lanes, inner)


def from_lanes(y: At, lanes: int, x: At) -> Launches:
    batch, inner = x.shape[0], math.prod(x.shape[1:])
    return transposed(y, x, batch // lanes, inner, lanes)
