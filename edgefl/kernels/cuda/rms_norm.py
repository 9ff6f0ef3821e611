"""Normalisation of runs of channels by their root mean square: csrc/cuda/rms_norm.cuh."""

from __future__ import annotations

from typing import Any

from .launch import Ids, KernelArray, Launches, launch
from .structs import declare

declare(
    {
        "rmsnorm_forward": "x weight y inv_rms width inner offset eps count",
        "rmsnorm_weight of rmsnorm_backward": "dy x inv_rms dweight outs:Ids runs width inner",
        "rmsnorm_input of rmsnorm_backward": "dy x weight inv_rms dx width inner offset count",
    }
)


def rmsnorm_forward(
    x: KernelArray, weight: KernelArray, y: KernelArray, inv_rms: KernelArray, offset: float, eps: float
) -> Launches:
    given: dict[str, Any] = {"x": x, "weight": weight, "y": y, "inv_rms": inv_rms, "offset": offset, "eps": eps}
    extents = {"width": weight.shape[0], "inner": x.shape[2], "count": inv_rms.size}
    return [launch("rmsnorm_forward", inv_rms.size, **given, **extents)]


def rmsnorm_backward(
    dy: KernelArray, x: KernelArray, weight: KernelArray, inv_rms: KernelArray, offset: float, dx: KernelArray,
    dweight: KernelArray, outs: KernelArray | None,
) -> Launches:  # fmt: skip
    width, runs = weight.shape[0], inv_rms.shape[0] * inv_rms.shape[1]
    given: dict[str, Any] = {"dy": dy, "x": x, "inv_rms": inv_rms, "width": width, "inner": x.shape[2]}
    ids = Ids.of(outs, width)
    return [
        launch("rmsnorm_weight", ids.count, **given, dweight=dweight, outs=ids, runs=runs),
        launch("rmsnorm_input", inv_rms.size, **given, weight=weight, dx=dx, offset=offset, count=inv_rms.size),
    ]
