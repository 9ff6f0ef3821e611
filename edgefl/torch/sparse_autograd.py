"""Products with masked weights under torch's autograd, by the sparse kernels, or by dense kernels with zeros.

The modules are in sparse_layers.py. The sparse kernels serve float32 on the CPU for first derivatives, if the native
backend is built. A gradient of a gradient, another type or another device takes the dense way, which gives equal
numbers up to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from edgefl import kernels
from edgefl.errors import BackendError
from edgefl.kernels import sparse_choice, sparse_layout, weight_structure

Pair = tuple[int, int]
Words = NDArray[np.uint32]


class SparseConvolutionGeometry(NamedTuple):
    """The settings of a convolution without groups."""

    stride: Pair
    padding: Pair
    dilation: Pair


class Structures(NamedTuple):
    """A mask as the kernels read it.

    structure    packed positions of the weights in the mask
    order        for each value of the structure, its index in the flattened weight
    structure_t  the transposed structure, or None if the gradient of the input needs no structure of its own
    order_t      for each value of the transposed structure, its index in the structure, or None
    """

    structure: Words
    order: Words
    structure_t: Words | None
    order_t: Words | None


def native() -> Any:
    """Return the native kernels, or None if they are not built."""
    try:
        return kernels.backend("native")
    except BackendError:
        return None


def is_faster(shape: tuple[int, ...], batch: int, density: float) -> bool:
    """Return whether the sparse kernels are faster than a product with a whole weight, which is written first.

    shape   shape of the weight, followed by height and width of the images for a convolution
    """
    op = "linear" if len(shape) == 2 else "conv2d"
    return sparse_choice.runs_sparse(op, shape, batch, density, native().isa(), scatters=True)


def of_linear(mask: NDArray[np.bool_], batch: int) -> Structures:
    """Return the structures of mask [outputs, inputs], laid out for batches of about `batch` samples."""
    (outs, ins), count = mask.shape, int(np.count_nonzero(mask))
    turned = (
        weight_structure.plan(ins, outs, count, batch).words
        if sparse_choice.keeps_transposed("linear", batch)
        else None
    )
    made = _empty(weight_structure.plan(outs, ins, count, batch).words, count, turned)
    native().sparse_linear_build(mask.view(np.uint8), *made, batch)
    return made


def of_convolution(mask: NDArray[np.bool_], size: Pair, geometry: SparseConvolutionGeometry) -> Structures | None:
    """Return the structures of mask [outputs, inputs, kernel height, kernel width] for images of this size.

    Return None if the images are too large for the structures.
    """
    outs, ins, *kernel = mask.shape
    count = int(np.count_nonzero(mask))
    layer = sparse_layout.ConvolutionShape(ins, outs, size, (kernel[0], kernel[1]), *geometry)
    forward, turned = (
        sparse_layout.SparseConvolutionLayout(layer, count, is_transposed) for is_transposed in (False, True)
    )
    if not (forward.fits and turned.fits):
        return None
    made = _empty(forward.words, count, turned.words)
    native().sparse_conv2d_build(mask.view(np.uint8), *made, size, *geometry)
    return made


def _empty(words: int, count: int, words_t: int | None) -> Structures:
    structure, order = np.zeros(words, np.uint32), np.zeros(count, np.uint32)
    turned = (None, None) if words_t is None else (np.zeros(words_t, np.uint32), np.zeros(count, np.uint32))
    return Structures(structure, order, *turned)


class Products(Protocol):
    """The protocol of the kernels of one layer.

    Arrays are float32 and C-contiguous. Values are in the order of the structure.
    """

    structures: Structures

    def forward(self, x: NDArray[Any], values: NDArray[Any], bias: NDArray[Any] | None) -> NDArray[Any]: ...

    def grad_input(self, x_shape: tuple[int, ...], dy: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]: ...

    def grad_weight(self, x: NDArray[Any], dy: NDArray[Any]) -> NDArray[Any]: ...


class LinearProducts:
    """The sparse kernels of a Linear layer."""

    def __init__(self, structures: Structures, outs: int) -> None:
        self.structures, self._outs, self._ops = structures, outs, native()

    def forward(self, x: NDArray[Any], values: NDArray[Any], bias: NDArray[Any] | None) -> NDArray[Any]:
        y = np.empty((len(x), self._outs), np.float32)
        self._ops.sparse_linear_forward(x, self.structures.structure, values, bias, y)
        return y

    def grad_input(self, x_shape: tuple[int, ...], dy: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        dx, (structure, _, structure_t, order_t) = np.empty(x_shape, np.float32), self.structures
        if structure_t is not None:
            turned = np.empty_like(values)
            self._ops.permute(values, order_t, turned)
            structure, values = structure_t, turned
        self._ops.sparse_linear_grad_input(dy, structure, values, dx)
        return dx

    def grad_weight(self, x: NDArray[Any], dy: NDArray[Any]) -> NDArray[Any]:
        gradients = np.empty(len(self.structures.order), np.float32)
        self._ops.sparse_linear_grad_weight(x, dy, self.structures.structure, gradients)
        return gradients


class ConvolutionProducts:
    """The sparse kernels of a convolution."""

    def __init__(self, structures: Structures, outs: int, kernel: Pair, geometry: SparseConvolutionGeometry) -> None:
        self.structures, self._outs, self._kernel, self._geometry = structures, outs, kernel, geometry
        self._ops = native()

    def forward(self, x: NDArray[Any], values: NDArray[Any], bias: NDArray[Any] | None) -> NDArray[Any]:
        settings = zip(x.shape[2:], self._kernel, *self._geometry, strict=True)
        cells = [(n + 2 * pad - dil * (k - 1) - 1) // stride + 1 for n, k, stride, pad, dil in settings]
        y = np.empty((len(x), self._outs, *cells), np.float32)
        self._ops.sparse_conv2d_forward(
            x, self.structures.structure, values, bias, y, self._kernel, *self._geometry, 1, 1
        )
        return y

    def grad_input(self, x_shape: tuple[int, ...], dy: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        dx, turned = np.empty(x_shape, np.float32), np.empty_like(values)
        _, _, structure_t, order_t = self.structures
        self._ops.permute(values, order_t, turned)
        self._ops.sparse_conv2d_grad_input(dy, structure_t, turned, dx, self._kernel, *self._geometry, 1, 1)
        return dx

    def grad_weight(self, x: NDArray[Any], dy: NDArray[Any]) -> NDArray[Any]:
        gradients = np.empty(len(self.structures.order), np.float32)
        arguments = (x, dy, self.structures.structure, gradients)
        self._ops.sparse_conv2d_grad_weight(*arguments, self._kernel, *self._geometry, 1, 1)
        return gradients


class Slots(NamedTuple):
    """The correspondence between the values of the structure and the values of a module, in both directions.

    value  for each value of the structure, its position among the values of the module
    slot   for each value of the module, its position among the values of the structure
    """

    value: Words
    slot: Words

    @staticmethod
    def of(positions: NDArray[np.int64], order: Words) -> Slots:
        """Return the slots.

        positions  indices of the module's values in the flattened weight, sorted
        order      indices of the structure's values in the flattened weight
        """
        value = np.searchsorted(positions, order).astype(np.uint32)
        slot = np.empty_like(value)
        slot[value] = np.arange(len(value), dtype=np.uint32)
        return Slots(value, slot)


class SparseProduct(torch.autograd.Function):
    """The function (x, values of a module, bias or None) -> y, by the kernels of `products`.

    `slots` brings the values into the order of the structure.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, values: Tensor, bias: Tensor | None, products: Products, slots: Slots) -> Tensor:
        laid = _permuted(_array(values), slots.value)
        ctx.save_for_backward(x, torch.from_numpy(laid))
        ctx.products, ctx.slots = products, slots
        return torch.from_numpy(products.forward(_array(x), laid, None if bias is None else _array(bias)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, values = ctx.saved_tensors
        needs_x, needs_values, needs_bias, *_ = ctx.needs_input_grad
        output_grad = _array(dy)
        dx = torch.from_numpy(ctx.products.grad_input(tuple(x.shape), output_grad, _array(values))) if needs_x else None
        dw = _permuted(ctx.products.grad_weight(_array(x), output_grad), ctx.slots.slot) if needs_values else None
        db = dy.sum([axis for axis in range(dy.ndim) if axis != 1]) if needs_bias else None
        return dx, None if dw is None else torch.from_numpy(dw), db, None, None


def _permuted(values: NDArray[Any], order: Words) -> NDArray[Any]:
    permuted = np.empty_like(values)
    native().permute(values, order, permuted)
    return permuted


def _array(tensor: Tensor) -> NDArray[Any]:
    found: NDArray[Any] = tensor.detach().contiguous().numpy()
    return found
