"""Steps of SGD, Nesterov and Adam, and clipping: csrc/cuda/update.cuh."""

from __future__ import annotations

from .launch import THREADS, KernelArray, Launches, Scratch, StructValues, block_of, fours, launch, struct_values, tiled
from .structs import declare

declare(
    {
        # Each block writes a sum. One block alone adds to the total.
        "sum_squares": "x sums:float64[]! count",
        "sum_squared_changes": "x before sums:float64[]! count",
        "add_squares": "sums:float64[] total:float64[]! count",
        "clip_scale": "total max_norm scale",
        # All methods have this part of a step's gradient in common. The arrays but w are compact.
        "update::Gradient": "w:float[]! grad:float[] scale,centre,linear:float[]? block:parameters::BlockOf",
        # The arguments of so many calls fit into 4 kB.
        "update::SgdArgs: sgd*16": "gradient:update::Gradient velocity:float[]?! hyper nesterov",
        "begin_adam": "settings:update::AdamSettings[] steps rates:update::AdamRates[]!",
        "update::AdamArgs: adam*16": "gradient:update::Gradient mean square rates:update::AdamRates[]",
    }
)

_LEAST_VALUES, _MOST_BLOCKS = 16 * THREADS, 1024  # least values of a block of sum_squares, most blocks


def sum_squares(x: KernelArray, total: KernelArray) -> Launches:
    return _sum("sum_squares", x.size, total, x=x)


def sum_squared_changes(
    x: KernelArray, before: KernelArray, total: KernelArray, copy: KernelArray | None = None
) -> Launches:
    sums = _sum("sum_squared_changes", x.size, total, x=x, before=before)
    if copy is None or not x.size:
        return sums
    one = {"rows": 1, "width": x.size, "source_step": x.size, "to_step": x.size}
    return [*sums, launch("copy_rows", x.size, source=x, to=copy, **one)]


def _sum(kernel: str, count: int, total: KernelArray, **read: KernelArray) -> Launches:
    """Return the launches that add a sum to the total: of one block, or of many blocks and then of their sums."""
    blocks = min(-(-count // _LEAST_VALUES), _MOST_BLOCKS)
    if blocks <= 1:
        return [launch(kernel, min(count, THREADS), **read, sums=total, count=count)]
    sums = Scratch(0, 8 * blocks)
    squares = tiled(kernel, (blocks, 1, 1), **read, sums=sums, count=count)
    return [squares, launch("add_squares", 1, sums=sums, total=total, count=blocks)]


def clip_scale(total: KernelArray, max_norm: float, scale: KernelArray) -> Launches:
    return [launch("clip_scale", 1, 1, total=total, max_norm=max_norm, scale=scale)]


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
    gradient = _gradient(w, grad, scale, centre, linear, block_of(w, rows, cols))
    return [launch("sgd", _work(grad, rows, cols), gradient=gradient, velocity=velocity, hyper=hyper, nesterov=0)]


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
    gradient = _gradient(w, grad, scale, centre, linear, block_of(w, rows, cols))
    return [launch("sgd", _work(grad, rows, cols), gradient=gradient, velocity=velocity, hyper=hyper, nesterov=1)]


def begin_adam(settings: KernelArray, steps: KernelArray, rates: KernelArray) -> Launches:
    return [launch("begin_adam", 1, 1, settings=settings, steps=steps, rates=rates)]


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
    gradient = _gradient(w, grad, scale, centre, linear, block_of(w, rows, cols))
    return [launch("adam", grad.size, gradient=gradient, mean=mean, square=square, rates=rates)]


def _work(grad: KernelArray, rows: KernelArray | None, cols: KernelArray | None) -> int:
    """Return the number of threads of a step: values that lie in the weight as in the gradient are taken in fours."""
    return fours(grad.size) if rows is None and cols is None else grad.size


def _gradient(
    w: KernelArray,
    grad: KernelArray,
    scale: KernelArray | None,
    centre: KernelArray | None,
    linear: KernelArray | None,
    block: StructValues,
) -> StructValues:
    optional = {"scale": scale, "centre": centre, "linear": linear}
    return struct_values("update::Gradient", w=w, grad=grad, **optional, block=block)
