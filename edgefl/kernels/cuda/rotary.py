"""Rotary positions: csrc/cuda/rotary.cuh."""

from __future__ import annotations

from .launch import KernelArray, Launches, launch
from .structs import declare

declare({"rotary": "x cos sin y back width inner count"})


def rotary(x: KernelArray, cos: KernelArray, sin: KernelArray, back: bool, y: KernelArray) -> Launches:
    count, extents = x.size // 2, {"width": cos.shape[0], "inner": x.shape[2]}
    return [launch("rotary", count, x=x, cos=cos, sin=sin, y=y, back=back, count=count, **extents)]
