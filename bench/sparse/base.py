"""Dense kernels of another build of edgefl, called by its C ABI, so that the yardstick stands still while ours move."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_int64
from pathlib import Path
from typing import Any

from bench.sparse.layers import Layer, Products
from edgefl.kernels import native
from edgefl.models.graph.operations import Conv2d

Floats = ctypes.POINTER(c_float)
FIELDS = ("kernel_size", "stride", "padding", "dilation")


class Index(ctypes.Structure):
    """The struct efl_index. As it is made, it stands for all ids."""

    _fields_ = [("ids", ctypes.POINTER(c_int32)), ("count", c_int64)]


class Base:
    """A built tree, or its efl library alone, on one thread and the instruction set that ours uses now."""

    def __init__(self, path: Path) -> None:
        """Load the library. Raises OSError if there is no library."""
        library = path if path.is_file() else path / "edgefl" / "libedgefl.so"
        self._lib = ctypes.CDLL(str(library))
        self._lib.efl_cap_isa(native.isa().encode())
        self._lib.efl_set_threads(1)

    def products(self, layer: Layer) -> Products:
        """Return the three dense products of the layer's masked weight."""
        x, weight, dy, y, dx, dw = (
            array.ctypes.data_as(Floats) for array in (layer.x, layer.weight, layer.dy, layer.y, layer.dx, layer.dw)
        )
        lib, every = self._lib, Index()
        if isinstance(layer.shape.op, Conv2d):
            conv = ctypes.byref(_geometry(layer))
            channels = c_int64(layer.shape.weight[1])
            return {
                "forward": lambda: lib.efl_conv2d_forward_f32(conv, x, weight, None, y),
                "grad_input": lambda: lib.efl_conv2d_grad_input_f32(conv, dy, weight, every, every, dx),
                "grad_weight": lambda: lib.efl_conv2d_grad_weight_f32(conv, x, channels, dy, every, every, dw),
            }
        outs, ins = layer.shape.weight
        extents = tuple(c_int64(n) for n in (layer.shape.batch, ins, outs))
        return {
            "forward": lambda: lib.efl_linear_forward_f32(x, weight, None, *extents, y),
            "grad_input": lambda: lib.efl_linear_grad_input_f32(dy, weight, *extents, every, every, dx),
            "grad_weight": lambda: lib.efl_linear_grad_weight_f32(x, dy, *extents, every, every, dw),
        }


def _geometry(layer: Layer) -> Any:
    """Return the struct efl_conv2d, whose fields are 14 integers."""
    shape, op = layer.shape, layer.shape.op
    assert isinstance(op, Conv2d) and shape.size is not None
    settings = [n for field in FIELDS for n in getattr(op, field)]
    return (c_int64 * 14)(shape.batch, op.in_channels, *shape.size, op.out_channels, *settings, 1)
