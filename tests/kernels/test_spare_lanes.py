"""Lanes that a result does not use hold nothing that costs time: numbers left over in packing memory may be subnormal.

A processor takes a hundred times as long for a product with such a number. What was computed shows in its sticky flags:
after infinities in packing memory, ordinary operands may not raise the flag of an invalid operation.
"""

import ctypes
import ctypes.util
import platform
import sys
from itertools import product

import numpy as np
import pytest

from .calls import native_isas

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the flag's number is x86's on Linux"
)
INVALID = 0x01
SHAPES = [(16, 450, 35), (64, 450, 65), (70, 33, 66), (128, 84, 10), (67, 3, 49), (130, 100, 20), (5, 17, 9)]
# images, channels, side of the map, channels of the result, kernel, stride
MAPS = [
    (1, 64, 8, 48, 3, 2),
    (1, 40, 10, 64, 3, 2),
    (3, 32, 9, 64, 3, 2),
    (1, 48, 4, 70, 3, 1),
    (2, 70, 3, 66, 3, 1),
    (1, 24, 5, 66, 3, 1),
    (1, 48, 8, 48, 5, 1),
    (1, 300, 3, 130, 1, 1),
    (5, 300, 3, 130, 1, 1),
]


@pytest.fixture
def restored(native):
    """Yield native with one thread, because the flags belong to a thread, and restore instruction set and threads."""
    isa, threads = native.isa(), native.threads()
    native.set_threads(1)
    yield native
    native.set_threads(threads)
    native.cap_isa(isa)


def products(native, rng, batch, ins, outs, value=None):
    """The calls of a layer, with all columns and with some, on random operands or on `value` everywhere."""

    def operand(*shape):
        return rng.standard_normal(shape, np.float32) if value is None else np.full(shape, value, np.float32)

    x, weight, dy, bias = operand(batch, ins), operand(outs, ins), operand(batch, outs), operand(outs)
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(weight)
    some, rows = np.arange(0, ins, 2, dtype=np.int32), np.arange(0, outs, 3, dtype=np.int32)
    small, most = np.empty((len(rows), len(some)), np.float32), np.arange(1, ins, dtype=np.int32)
    return {
        "forward": lambda: native.linear_forward(x, weight, bias, y),
        "input gradient": lambda: native.linear_grad_input(dy, weight, dx, None, None),
        "input gradient of some": lambda: native.linear_grad_input(dy, weight, dx, None, most),
        "weight gradient": lambda: native.linear_grad_weight(x, dy, dw, None, None),
        "weight gradient of some": lambda: native.linear_grad_weight(x, dy, small, rows, some),
    }


def check(native, calls, shapes, large):
    """Calls of these shapes compute with nothing that calls of the large shape on infinities left in packing memory."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    rng = np.random.default_rng(3)
    for isa, shape in product(native_isas(), shapes):
        native.cap_isa(isa)
        for name, call in calls(native, rng, *shape).items():
            for leave in calls(native, rng, *large, np.inf).values():
                leave()
            libm.feclearexcept(0x3F)
            call()
            assert not libm.fetestexcept(INVALID), f"{isa}: the {name} of {shape} computed with what was left over"


def test_spare_lanes_compute_with_nothing_left_over(restored):
    check(restored, products, SHAPES, (90, 700, 130))


def maps(native, rng, images, channels, side, outs, kernel, stride, value=None):
    """The calls of a convolution, on random operands or on `value` everywhere."""

    def operand(*shape):
        return rng.standard_normal(shape, np.float32) if value is None else np.full(shape, value, np.float32)

    pad = kernel // 2
    cells = (side + 2 * pad - kernel) // stride + 1
    x, weight = operand(images, channels, side, side), operand(outs, channels, kernel, kernel)
    dy = operand(images, outs, cells, cells)
    y, dx, steps, pads = np.empty_like(dy), np.empty_like(x), (stride, stride), (pad, pad)
    return {
        "forward": lambda: native.conv2d_forward(x, weight, None, y, steps, pads, (1, 1), 1),
        "input gradient": lambda: native.conv2d_grad_input(dy, weight, dx, steps, pads, (1, 1), 1, None, None),
    }


def test_spare_lanes_of_convolutions_compute_with_nothing_left_over(restored):
    check(restored, maps, MAPS, (2, 96, 12, 96, 3, 1))
