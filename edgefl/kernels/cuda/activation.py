"""Smooth activations and PReLU: csrc/cuda/activation.cuh."""

from __future__ import annotations

from .launch import Ids, KernelArray, Launches, Scratch, chosen, launch, tiled

PLANES = 8  # that a block sums up


def activation_forward(x: KernelArray, kind: int, beta: float, threshold: float, y: KernelArray) -> Launches:
    return [launch("activation_forward", y.size, x, y, y.size, kind, float(beta), float(threshold))]


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
    fields = dy, saved, dx, *chosen(channels, dy), batch, kind, float(beta), float(threshold)
    return [launch("activation_backward", batch * ids.count * dy.inner, *fields)]


def elu_forward(x: KernelArray, alpha: float, y: KernelArray) -> Launches:
    return [launch("elu_forward", y.size, x, y, y.size, float(alpha))]


def elu_backward(
    dy: KernelArray, x: KernelArray, alpha: float, dx: KernelArray, channels: KernelArray | None
) -> Launches:
    batch, ids = dy.shape[0], Ids.of(channels, dy.shape[1])
    fields = dy, x, dx, *chosen(channels, dy), batch, float(alpha)
    return [launch("elu_backward", batch * ids.count * dy.inner, *fields)]


def prelu_forward(x: KernelArray, weight: KernelArray, y: KernelArray) -> Launches:
    planes, channels = x.shape[0] * x.shape[1], x.shape[1]
    return [launch("prelu_forward", y.size, x, weight, y, weight.size, planes, channels, x.inner)]


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
        tiled("prelu_planes", (-(-planes // PLANES), 1, 1), dy, x, sums, planes, dy.inner),
        tiled("prelu_weights", (trained.count, 1, 1), sums, dweight, trained, batch, dy.shape[1], weight.size),
        launch(
            "prelu_signal", batch * ids.count * dy.inner,
            dy, x, weight, dx, *chosen(channels, dy), batch, weight.size,
        ),
    ]  # fmt: skip
