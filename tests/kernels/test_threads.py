"""Native results do not depend on the number of threads: every operation, on shapes large enough to be split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels.ops import OPS

from . import cases as c
from . import cases_conv as conv
from . import cases_norm_relu as norm_relu
from . import cases_update as update
from .calls import native_isas, run
from .cases import Args, Rng

LAYER = conv.Geometry(16, 20, 24, (15, 17))
DEEP = conv.Geometry(2, 260, 259, (6, 7))
GROUPED = conv.Geometry(16, 24, 48, (15, 17), groups=24)
IMAGE = (16, 24, 16, 18)
WINDOW: Args = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}
BLOCK = (64, 48, 25)

LARGE: list[tuple[str, Callable[[Rng], Args]]] = [
    ("gather_rows", lambda r: gather(r)),
    ("gather_labels", lambda r: labels(r)),
    ("take_channels", lambda r: take(r)),
    ("conv2d_forward", lambda r: conv.forward(r, LAYER, True)),
    ("conv2d_forward", lambda r: conv.forward(r, DEEP, True)),
    ("conv2d_forward", lambda r: conv.forward(r, GROUPED, False)),
    ("conv2d_grad_input", lambda r: conv.grad_input(r, LAYER, "all", "all")),
    ("conv2d_grad_input", lambda r: conv.grad_input(r, LAYER, "odd", "but_one")),
    ("conv2d_grad_input", lambda r: conv.grad_input(r, DEEP, "all", "but_one")),
    ("conv2d_grad_input", lambda r: conv.grad_input(r, GROUPED, "all", "odd")),
    ("conv2d_grad_weight", lambda r: conv.grad_weight(r, LAYER, "all", "all")),
    ("conv2d_grad_weight", lambda r: conv.grad_weight(r, LAYER, "odd", "but_one")),
    ("conv2d_grad_weight", lambda r: conv.grad_weight(r, DEEP, "all", "but_one")),
    ("conv2d_grad_weight", lambda r: conv.grad_weight(r, GROUPED, "but_one", "all")),
    ("linear_forward", lambda r: c.linear_forward(r, 67, 450, 131, True)),
    ("linear_grad_input", lambda r: c.linear_grad_input(r, 67, 450, 131, "all", "all")),
    ("linear_grad_input", lambda r: c.linear_grad_input(r, 67, 450, 131, "odd", "but_one")),
    ("linear_grad_weight", lambda r: c.linear_grad_weight(r, 67, 450, 131, "odd", "but_one")),
    ("linear_update", lambda r: c.linear_update(r, 67, 450, 131, "odd", "but_one", True)),
    ("channel_sum", lambda r: {"dy": c.normal(r, *IMAGE), "out": c.blank(24), "outs": None}),
    ("batchnorm_forward", lambda r: c.batchnorm_forward(r, IMAGE, 1.0)),
    ("batchnorm_eval", lambda r: c.batchnorm_eval(r, IMAGE)),
    ("batchnorm_backward", lambda r: c.batchnorm_backward(r, IMAGE, "but_one", "but_one")),
    ("groupnorm_forward", lambda r: c.groupnorm_forward(r, IMAGE, 2, True)),
    ("groupnorm_backward", lambda r: c.groupnorm_backward(r, IMAGE, 4, "but_one")),
    ("batchnorm_relu_forward", lambda r: norm_relu.batchnorm_forward(r, IMAGE, True)),
    ("batchnorm_relu_backward", lambda r: norm_relu.batchnorm_backward(r, IMAGE, True, "but_one", "but_one")),
    ("groupnorm_relu_forward", lambda r: norm_relu.groupnorm_forward(r, IMAGE, False, 2)),
    ("groupnorm_relu_backward", lambda r: norm_relu.groupnorm_backward(r, IMAGE, True, 4, "but_one")),
    ("relu_forward", lambda r: c.relu_forward(r, IMAGE, True)),
    ("relu_backward", lambda r: c.relu_backward(r, IMAGE, "odd")),
    ("add", lambda r: {"a": c.normal(r, *IMAGE), "b": c.normal(r, *IMAGE), "y": c.blank(*IMAGE)}),
    ("fill_zero", lambda r: {"x": c.normal(r, *IMAGE)}),
    ("maxpool_forward", lambda r: c.maxpool_forward(r, IMAGE, WINDOW, True)),
    ("maxpool_backward", lambda r: c.maxpool_backward(r, IMAGE, WINDOW, "odd")),
    ("avgpool_forward", lambda r: c.avgpool_forward(r, IMAGE, WINDOW, True)),
    ("avgpool_backward", lambda r: c.avgpool_backward(r, IMAGE, WINDOW, True, "odd")),
    ("softmax_xent", lambda r: update.softmax_xent(r, 512, 200, 3.0, True)),
    ("sum_squares", lambda r: {"x": c.normal(r, 200_001), "total": np.zeros(1)}),
    ("clip_scale", lambda r: {"total": np.array([7.0]), "max_norm": 1.0, "scale": c.blank(1)}),
    ("sgd", lambda r: update.sgd(r, BLOCK, update.SGD_VARIANTS["everything"], ("all", "all"))),
    ("sgd", lambda r: update.sgd(r, BLOCK, update.SGD_VARIANTS["momentum"], ("odd", "but_one"))),
    ("take_axes", lambda r: update.axes(r, BLOCK, ("odd", "but_one"), True)),
    ("put_axes", lambda r: update.axes(r, BLOCK, ("odd", "but_one"), False)),
    ("take_flat", lambda r: update.flat(r, 200_001, "odd", True)),
    ("put_flat", lambda r: update.flat(r, 200_001, "odd", False)),
]


def gather(rng: Rng) -> Args:
    src, index = rng.integers(0, 256, (50, 3072)).astype(np.uint8), rng.integers(0, 50, 128).astype(np.int32)
    return {"src": src, "index": index, "scale": 1 / 255, "shift": -0.5, "out": c.blank(128, 3072)}


def labels(rng: Rng) -> Args:
    src, index = rng.integers(0, 9, 1000).astype(np.int32), rng.integers(0, 1000, 100_000).astype(np.int32)
    return {"src": src, "index": index, "out": np.zeros(100_000, np.int32)}


def take(rng: Rng) -> Args:
    channels = c.pick("odd", IMAGE[1])
    return {"x": c.normal(rng, *IMAGE), "channels": channels, "out": c.blank(IMAGE[0], 12, *IMAGE[2:])}


@pytest.fixture(params=native_isas())
def pooled(native: ModuleType, request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Native under each instruction set; its threads are restored afterwards."""
    isa, threads = native.isa(), native.threads()
    native.cap_isa(request.param)
    yield native
    native.set_threads(threads)
    native.cap_isa(isa)


def test_every_operation_is_here() -> None:
    assert {op for op, _ in LARGE} == set(OPS)


@pytest.mark.parametrize(("op", "make"), LARGE, ids=[f"{number}-{op}" for number, (op, _) in enumerate(LARGE)])
def test_threads_do_not_change_a_bit(pooled: ModuleType, op: str, make: Callable[[Rng], Args]) -> None:
    results = []
    for threads in (1, 2, 3):
        pooled.set_threads(threads)
        args = run(pooled, op, make(np.random.default_rng(7)))
        results.append({name: value.tobytes() for name, value in args.items() if isinstance(value, np.ndarray)})
    assert results[0] == results[1] == results[2]
