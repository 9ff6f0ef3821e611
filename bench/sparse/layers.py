"""The layers that are measured: a masked layer's operands, and its three products by each of our own kernels.

The rivals are in base.py, rivals.py and bench/peers.py. command.py turns the times into figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels import native, sparse_layout, weight_structure
from edgefl.kernels.memory import aligned_bytes
from edgefl.kernels.sparse_choice import keeps_transposed
from edgefl.models.graph.operations import Conv2d, Linear

Array = NDArray[Any]
Products = dict[str, Callable[[], object]]
KINDS = ("forward", "grad_input", "grad_weight")


class Shape(NamedTuple):
    """A layer and a batch. `size` is the height and width of a convolution's images."""

    name: str
    op: Linear | Conv2d
    batch: int
    size: tuple[int, int] | None = None

    @property
    def family(self) -> str:
        return "linear" if self.size is None else "conv2d"

    @property
    def weight(self) -> tuple[int, ...]:
        return tuple(self.op.parameters()["weight"].shape)

    @property
    def macs(self) -> int:
        """The multiply-adds of one dense product."""
        return self.batch * math.prod(self.weight) * math.prod(self.result[2:])

    @property
    def source(self) -> tuple[int, ...]:
        return (self.batch, self.weight[1], *(self.size or ()))

    @property
    def result(self) -> tuple[int, ...]:
        if not isinstance(self.op, Conv2d) or self.size is None:
            return (self.batch, self.weight[0])
        extents = zip(self.size, self.op.kernel_size, self.op.stride, self.op.padding, self.op.dilation, strict=True)
        return (self.batch, self.weight[0], *((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in extents))

    @property
    def geometry(self) -> tuple[Any, ...]:
        op = self.op
        return (op.stride, op.padding, op.dilation) if isinstance(op, Conv2d) else ()


@dataclass
class Layer:
    """Operands of a layer with a mask that keeps `density` of its weights. `weight` is 0 elsewhere."""

    shape: Shape
    density: float

    def __post_init__(self) -> None:
        values = np.random.default_rng(1)
        self.mask = (values.random(self.shape.weight) < self.density).astype(np.uint8)
        self.weight, self.x, self.dy = (
            _filled(values.standard_normal(shape, np.float32))
            for shape in (self.shape.weight, self.shape.source, self.shape.result)
        )
        self.weight *= self.mask
        self.y, self.dx, self.dw = (empty(array.shape) for array in (self.dy, self.x, self.weight))

    @property
    def macs(self) -> int:
        """The multiply-adds of one product on the weights that exist."""
        return self.shape.macs * self.count // self.mask.size

    @cached_property
    def count(self) -> int:
        return int(self.mask.sum())

    def dense(self) -> Products:
        """Return our dense kernels of today."""
        shape, more, groups = self.shape, self.shape.geometry, (1,) if self.shape.size else ()
        op = {kind: getattr(native, f"{shape.family}_{kind}") for kind in KINDS}
        last = (shape.weight[1],) if shape.size else ()
        return {
            "forward": lambda: op["forward"](self.x, self.weight, None, self.y, *more, *groups),
            "grad_input": lambda: op["grad_input"](self.dy, self.weight, self.dx, *more, *groups, None, None),
            "grad_weight": lambda: op["grad_weight"](self.x, self.dy, self.dw, *more, *groups, None, None, *last),
        }

    def reference(self) -> dict[str, Array]:
        """Return the three products in float64, the last one flat and at the mask alone."""
        import torch

        x, weight, dy = (torch.from_numpy(array).double() for array in (self.x, self.weight, self.dy))
        x.requires_grad_(), weight.requires_grad_()
        op = self.shape.op
        if isinstance(op, Conv2d):
            y = torch.nn.functional.conv2d(x, weight, None, op.stride, op.padding, op.dilation)
        else:
            y = torch.nn.functional.linear(x, weight)
        y.backward(dy)
        assert x.grad is not None and weight.grad is not None
        found = (y.detach(), x.grad, weight.grad)
        return dict(zip(KINDS, (each.numpy() for each in found), strict=True))


class Sparse:
    """Our sparse kernels on a layer: structures built, and values in their order."""

    def __init__(self, layer: Layer) -> None:
        self._layer, shape = layer, layer.shape
        self._prefix = f"sparse_{shape.family}"
        self.is_transposed = keeps_transposed(shape.family, shape.batch)
        words, words_t = self._words()
        self.structure, self.order = np.zeros(words, np.uint32), np.zeros(layer.count, np.uint32)
        self.structure_t, self.order_t = np.zeros(words_t, np.uint32), np.zeros(layer.count, np.uint32)
        self.build()
        self.values, self.values_t, self.gradients = (empty((layer.count,)) for _ in range(3))
        self.values[:] = layer.weight.reshape(-1)[self.order]
        self.refresh()

    def _words(self) -> tuple[int, int]:
        shape, count = self._layer.shape, self._layer.count
        op = shape.op
        if not isinstance(op, Conv2d) or shape.size is None:
            rows, columns = shape.weight
            forward = weight_structure.plan(rows, columns, count, shape.batch)
            return forward.words, weight_structure.plan(columns, rows, count, shape.batch).words
        geometry = (op.kernel_size, op.stride, op.padding, op.dilation)
        layer = sparse_layout.ConvolutionShape(op.in_channels, op.out_channels, shape.size, *geometry)
        first, second = (sparse_layout.SparseConvolutionLayout(layer, count, turned) for turned in (False, True))
        return first.words, second.words

    def build(self) -> None:
        """Build the structures, which is what a change of the mask costs."""
        shape = self._layer.shape
        turned = (self.structure_t, self.order_t) if self.is_transposed else (None, None)
        more = (shape.size, *shape.geometry) if shape.size else (shape.batch,)
        self._op("build")(self._layer.mask, self.structure, self.order, *turned, *more)

    def refresh(self) -> None:
        if self.is_transposed:
            native.permute(self.values, self.order_t, self.values_t)

    def products(self) -> Products:
        layer, more = self._layer, self._layer.shape.geometry
        if layer.shape.size:
            more = (layer.shape.weight[2:], *more, 1, 1)
        turned = (self.structure_t, self.values_t) if self.is_transposed else (self.structure, self.values)
        forward, grad_input, grad_weight = (self._op(kind) for kind in KINDS)
        return {
            "forward": lambda: forward(layer.x, self.structure, self.values, None, layer.y, *more),
            "grad_input": lambda: grad_input(layer.dy, *turned, layer.dx, *more),
            "grad_weight": lambda: grad_weight(layer.x, layer.dy, self.structure, self.gradients, *more),
        }

    def error(self) -> float:
        """Return the largest error of the three products, over the largest value of each in float64."""
        for product in self.products().values():
            product()
        layer, exact = self._layer, self._layer.reference()
        exact["grad_weight"] = exact["grad_weight"].reshape(-1)[self.order]
        found = dict(zip(KINDS, (layer.y, layer.dx, self.gradients), strict=True))
        return max(float(np.abs(found[kind] - exact[kind]).max() / np.abs(exact[kind]).max()) for kind in KINDS)

    def _op(self, name: str) -> Callable[..., None]:
        found: Callable[..., None] = getattr(native, f"{self._prefix}_{name}")
        return found


def empty(shape: tuple[int, ...]) -> Array:
    """Return a float32 array that begins on a cache line."""
    return aligned_bytes(4 * math.prod(shape)).view(np.float32).reshape(shape)


def _filled(values: Array) -> Array:
    array = empty(values.shape)
    array[...] = values
    return array
