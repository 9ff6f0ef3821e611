"""Steps of SGD, Nesterov and Adam, and clipping: csrc/cuda/update.cuh."""

from __future__ import annotations

from .launch import THREADS, KernelArray, Launches, Scratch, block_of, launch, tiled

_LEAST_VALUES, _MOST_BLOCKS = 16 * THREADS, 1024  # least values of a block of sum_squares, most blocks


def sum_squares(x: KernelArray, total: KernelArray) -> Launches:
    blocks = min(-(-x.size // _LEAST_VALUES), _MOST_BLOCKS)
    if blocks <= 1:
        return [launch("sum_squares", min(x.size, THREADS), x, total, x.size)]
    sums = Scratch(0, 8 * blocks)
    return [tiled("sum_squares", (blocks, 1, 1), x, sums, x.size), launch("add_squares", 1, sums, total, blocks)]


def clip_scale(total: KernelArray, max_norm: float, scale: KernelArray) -> Launches:
    return [launch("clip_scale", 1, total, float(max_norm), scale, threads=1)]


def sgd(
    w: KernelArray,
    grad: KernelArray,
    hyper: KernelArray,
    rows: KernelArray | None,
    cols: KernelArray | None,
    scale: KernelArray | None = None,
    velocity: KernelArray | None = None,
    centre: KernelArray | None = None,
    linear: KernelArray | None = None,
) -> Launches:
    gradient = w, grad, scale, centre, linear, *block_of(w, rows, cols)
    return [launch("sgd", grad.size, *gradient, velocity, hyper, 0)]


def nesterov(
    w: KernelArray,
    grad: KernelArray,
    hyper: KernelArray,
    rows: KernelArray | None,
    cols: KernelArray | None,
    velocity: KernelArray,
    scale: KernelArray | None = None,
    centre: KernelArray | None = None,
    linear: KernelArray | None = None,
) -> Launches:
    gradient = w, grad, scale, centre, linear, *block_of(w, rows, cols)
    return [launch("sgd", grad.size, *gradient, velocity, hyper, 1)]


def begin_adam(settings: KernelArray, steps: KernelArray, rates: KernelArray) -> Launches:
    return [launch("begin_adam", 1, settings, steps, rates, threads=1)]


def adam(
    w: KernelArray,
    grad: KernelArray,
    rates: KernelArray,
    rows: KernelArray | None,
    cols: KernelArray | None,
    mean: KernelArray,
    square: KernelArray,
    scale: KernelArray | None = None,
    centre: KernelArray | None = None,
    linear: KernelArray | None = None,
) -> Launches:
    gradient = w, grad, scale, centre, linear, *block_of(w, rows, cols)
    return [launch("adam", grad.size, *gradient, mean, square, rates)]
