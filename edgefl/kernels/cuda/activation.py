"""Smooth activations and PReLU: csrc/cuda/activation.cuh."""

from __future__ import annotations

from .launch import Ids, KernelArray, Launches, Scratch, chosen, launch, tiled
from .structs import declare

declare(
    {
        "activation_forward": "x y count kind beta threshold",
        "activation_backward": "dy saved dx chosen:Chosen batch kind beta threshold",
        "elu_forward": "x y count alpha",
        "elu_backward": "dy x dx chosen:Chosen batch alpha",
        "prelu_forward": "x weight y weights planes channels inner",
        "prelu_planes of prelu_backward": "dy x sums:float[]! planes inner",
        "prelu_weights of prelu_backward": "sums:float[] dweight outs batch channels:int weights",
        "prelu_signal of prelu_backward": "dy x weight dx chosen:Chosen batch weights",
    }
)

PLANES = 8  # that a block sums up


def activation_forward(x: KernelArray, kind: int, beta: float, threshold: float, y: KernelArray) -> Launches:
    return [launch("activation_forward", y.size, x=x, y=y, count=y.size, kind=kind, beta=beta, threshold=threshold)]


def activation_backward(
    dy: KernelArray,
    saved: KernelArray,
    kind: int,
    beta: float,
    threshold: float,
    dx: KernelArray,
    channels: KernelArray | None,
) -> Launches:
    batch, ids = dy.shape[0], Ids.of(channels, dy.shape[1])
    settings = {"kind": kind, "beta": beta, "threshold": threshold}
    return [
        launch(
            "activation_backward", batch * ids.count * dy.inner,
            dy=dy, saved=saved, dx=dx, chosen=chosen(channels, dy), batch=batch, **settings,
        )
    ]  # fmt: skip


def elu_forward(x: KernelArray, alpha: float, y: KernelArray) -> Launches:
    return [launch("elu_forward", y.size, x=x, y=y, count=y.size, alpha=alpha)]


def elu_backward(
    dy: KernelArray, x: KernelArray, alpha: float, dx: KernelArray, channels: KernelArray | None
) -> Launches:
    batch, ids = dy.shape[0], Ids.of(channels, dy.shape[1])
    work = batch * ids.count * dy.inner
    return [launch("elu_backward", work, dy=dy, x=x, dx=dx, chosen=chosen(channels, dy), batch=batch, alpha=alpha)]


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
