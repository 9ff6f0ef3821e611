"""Smooth activations and PReLU: csrc/cuda/activation.cuh."""

from __future__ import annotations

from .launch import Ids, KernelArray, Launches, Scratch, chosen, launch, tiled
from .structs import declare

declare(
    {
        "prelu_forward": "x weight y weights planes channels inner",
        "prelu_planes of prelu_backward": "dy x sums:float[]! planes inner",
        "prelu_weights of prelu_backward": "sums:float[] dweight outs batch channels:int weights",
        "prelu_signal of prelu_backward": "dy x weight dx chosen:Chosen batch weights",
    }
)

PLANES = 8  # that a block sums up


def prelu_forward(x: KernelArray, weight: KernelArray, y: KernelArray) -> Launches:
    extents = {"planes": x.shape[0] * x.shape[1], "channels": x.shape[1], "inner": x.inner}
    return [launch("prelu_forward", y.size, x=x, weight=weight, y=y, weights=weight.size, **extents)]


def prelu_backward(
    dy: KernelArray,
    x: KernelArray,
    weight: KernelArray,
    dx: KernelArray,
    dweight: KernelArray,
    channels: KernelArray | None,
    outs: KernelArray | None,
) -> Launches:  # dx may be dy, so that the weights' sums come first
    batch, ids, planes = dy.shape[0], Ids.of(channels, dy.shape[1]), dy.shape[0] * dy.shape[1]
    sums, trained = Scratch(0, 4 * max(planes, 1)), Ids.of(outs, weight.size)
    return [
        tiled("prelu_planes", (-(-planes // PLANES), 1, 1), dy=dy, x=x, sums=sums, planes=planes, inner=dy.inner),
        tiled(
            "prelu_weights", (trained.count, 1, 1),
            sums=sums, dweight=dweight, outs=trained, batch=batch, channels=dy.shape[1], weights=weight.size,
        ),
        launch(
            "prelu_signal", batch * ids.count * dy.inner,
            dy=dy, x=x, weight=weight, dx=dx, chosen=chosen(channels, dy), batch=batch, weights=weight.size,
        ),
    ]  # fmt: skip
