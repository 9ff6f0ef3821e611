"""Linear layers and convolutions of torch models with a mask. The weights that the mask keeps are the only parameters.

    model = sparsify(model, density=0.1)          # the largest weights of every layer stay, by ERK
    layer = SparseLinear.from_dense(nn.Linear(784, 200), density=0.2)

The mask is a buffer, so that a state_dict contains it and loads strictly. A layer that would be slower with sparse
kernels runs dense, with a weight that is 0 outside the mask. sparse_autograd.py computes the products. The source is
FedSpa (docs/algorithms.md sections 3 and 8).
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.models.neurons.density import Distribution, counts
from edgefl.torch.sparse_autograd import (
    ConvolutionProducts,
    LinearProducts,
    Pair,
    Products,
    Slots,
    SparseConvolutionGeometry,
    SparseProduct,
    is_faster,
    native,
    of_convolution,
    of_linear,
)

BATCHES = (16, 32, 128)
"""The batch sizes for which a Linear layer lays out its structures.

A batch takes the first size that is not smaller, or the last size.
"""

LAYOUTS_KEPT = 4


class _Sparse(nn.Module):
    """The common part of both sparse layers.

    values  weights in the mask, in the order of their positions in the flattened weight
    mask    uint8 with one bit for each position of the flattened weight, low bits first
    """

    values: nn.Parameter
    mask: Tensor

    def __init__(self, shape: tuple[int, ...], kept: Tensor, bias: bool) -> None:
        super().__init__()
        if tuple(kept.shape) != shape or kept.dtype != torch.bool:
            raise ValueError(f"mask of {kept.dtype} and shape {tuple(kept.shape)}; expected torch.bool and {shape}")
        self.shape = shape
        flat = kept.detach().cpu().numpy().reshape(-1)
        self.register_buffer("mask", torch.from_numpy(np.packbits(flat, bitorder="little")))
        self.values = nn.Parameter(torch.zeros(int(flat.sum())))
        self.bias = nn.Parameter(torch.zeros(shape[0])) if bias else None
        self._places: Tensor | None = None
        self._products: OrderedDict[Any, tuple[Products, Slots] | None] = OrderedDict()

    @property
    def density(self) -> float:
        """Return the share of the weights that are in the mask."""
        return self.values.numel() / math.prod(self.shape)

    def bits(self) -> Tensor:
        """Return the mask of the kept weights as booleans in the weight's shape."""
        return torch.from_numpy(self._bits())

    def _bits(self) -> NDArray[np.bool_]:
        flat = np.unpackbits(self.mask.cpu().numpy(), count=math.prod(self.shape), bitorder="little")
        return flat.view(np.bool_).reshape(self.shape)

    def weight(self) -> Tensor:
        """Return the whole weight, which is 0 outside the mask. Autograd can differentiate it."""
        if self._places is None or self._places.device != self.values.device:
            self._places = torch.from_numpy(np.flatnonzero(self._bits())).to(self.values.device)
        flat = self.values.new_zeros(math.prod(self.shape))
        return flat.index_copy_(0, self._places, self.values).view(self.shape)

    def _take(self, weight: Tensor, bias: Tensor | None) -> None:
        with torch.no_grad():
            self.values.data = weight.detach()[self.bits().to(weight.device)].clone()
            if self.bias is not None and bias is not None:
                self.bias.data = bias.detach().clone()

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any, **named: Any) -> None:
        """Load the layer. Raises ValueError if the mask in the file has another number of weights."""
        mask = state_dict.get(f"{prefix}mask")
        if mask is not None and mask.shape == self.mask.shape:
            ones = int(np.unpackbits(mask.cpu().numpy(), count=math.prod(self.shape), bitorder="little").sum())
            if ones != self.values.numel():
                raise ValueError(f"{prefix}mask with {ones} weights; expected {self.values.numel()}, as many as values")
        super()._load_from_state_dict(state_dict, prefix, *rest, **named)
        self._places = None
        self._products.clear()

    def _product(self, x: Tensor, key: Any, size: tuple[int, ...] = ()) -> Tensor | None:
        """Return y by the sparse kernels, or None if they cannot serve or a whole weight would be faster.

        size    height and width of images
        """
        if self.values.dtype != torch.float32 or x.dtype != torch.float32 or x.device.type != "cpu" or native() is None:
            return None
        if not is_faster(self.shape + size, len(x), self.density):
            return None
        if key not in self._products:
            self._products[key] = self._laid_out(key)
            if len(self._products) > LAYOUTS_KEPT:
                self._products.popitem(last=False)
        found = self._products[key]
        if found is None:
            return None
        result: Tensor = SparseProduct.apply(x, self.values, self.bias, *found)
        return result

    def _laid_out(self, key: Any) -> tuple[Products, Slots] | None:
        """Return the kernels for a batch or a size of images, and the positions of our values among theirs."""
        products = self._products_for(key, self._bits())
        if products is None:
            return None
        return products, Slots.of(np.flatnonzero(self._bits()), products.structures.order)

    def _products_for(self, key: Any, bits: NDArray[np.bool_]) -> Products | None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without structures, which are made anew."""
        return {**self.__dict__, "_places": None, "_products": OrderedDict()}


class SparseLinear(_Sparse):
    """A Linear layer y = x weight^T + bias with the weights of a mask only, which start at 0.

    in_features, out_features  numbers of features of x and of y
    mask  booleans [out_features, in_features]
    bias  whether the layer has a bias
    Raises  ValueError if the mask has another type or shape.
    """

    def __init__(self, in_features: int, out_features: int, mask: Tensor, bias: bool = True) -> None:
        super().__init__((out_features, in_features), mask, bias)
        self.in_features, self.out_features = in_features, out_features

    @staticmethod
    def from_dense(module: nn.Linear, mask: Tensor | None = None, *, density: float | None = None) -> SparseLinear:
        """Make the layer with the weights of a mask, or with the largest weights.

        module   dense layer that has the weights
        mask     booleans in the weight's shape
        density  share of the weights that stay
        Raises  ValueError for both or neither of mask and density, or a density that is not above 0 and at most 1.
        """
        kept = _chosen(module.weight, mask, density)
        layer = SparseLinear(module.in_features, module.out_features, kept, module.bias is not None)
        layer._take(module.weight, module.bias)
        return layer.train(module.training)

    def to_dense(self) -> nn.Linear:
        """Make a Linear layer with these weights, and 0 outside the mask."""
        layer = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        return _filled(layer, self)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        y = self._product(rows, next((size for size in BATCHES if len(rows) <= size), BATCHES[-1]))
        return F.linear(x, self.weight(), self.bias) if y is None else y.view(*x.shape[:-1], self.out_features)

    def _products_for(self, key: int, bits: NDArray[np.bool_]) -> Products:
        return LinearProducts(of_linear(bits, key), self.out_features)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, density={self.density:.3g}"


class SparseConv2d(_Sparse):
    """A convolution with the weights of a mask only, which start at 0. It has no groups.

    mask  booleans [out_channels, in_channels, height, width]
    in_channels, out_channels, kernel_size, stride, padding, dilation, bias  as in nn.Conv2d, with numbers or pairs
    Raises  ValueError if a pair has another number of values, or if the mask has another type or shape.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        mask: Tensor,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
        dilation: int | Pair = 1,
        bias: bool = True,
    ) -> None:
        kernel = _pair("kernel_size", kernel_size)
        super().__init__((out_channels, in_channels, *kernel), mask, bias)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.geometry = SparseConvolutionGeometry(
            _pair("stride", stride), _pair("padding", padding), _pair("dilation", dilation)
        )

    @staticmethod
    def from_dense(module: nn.Conv2d, mask: Tensor | None = None, *, density: float | None = None) -> SparseConv2d:
        """Make the layer like SparseLinear.from_dense.

        Raises  ValueError, too, if the module has groups, or pads with other values than zeros.
        """
        if module.groups != 1 or module.padding_mode != "zeros" or isinstance(module.padding, str):
            found = f"groups={module.groups}, padding_mode={module.padding_mode!r}, padding={module.padding!r}"
            raise ValueError(f"{found}; expected one group, and zeros as padding in numbers")
        kept = _chosen(module.weight, mask, density)
        settings = (module.stride, module.padding, module.dilation)
        channels = (module.in_channels, module.out_channels, module.kernel_size)
        layer = SparseConv2d(*channels, kept, *settings, bias=module.bias is not None)  # type: ignore[arg-type]
        layer._take(module.weight, module.bias)
        return layer.train(module.training)

    def to_dense(self) -> nn.Conv2d:
        """Make a convolution with these weights, and 0 outside the mask."""
        channels, (stride, padding, dilation) = (self.in_channels, self.out_channels), self.geometry
        has_bias = self.bias is not None
        layer = nn.Conv2d(*channels, self.kernel_size, stride, padding, dilation, bias=has_bias)
        return _filled(layer, self)

    def forward(self, x: Tensor) -> Tensor:
        size = (x.shape[2], x.shape[3]) if x.ndim == 4 else ()
        y = self._product(x, size, size) if size else None
        return F.conv2d(x, self.weight(), self.bias, *self.geometry) if y is None else y

    def _products_for(self, key: Pair, bits: NDArray[np.bool_]) -> Products | None:
        structures = of_convolution(bits, key, self.geometry)
        if structures is None:
            return None
        return ConvolutionProducts(structures, self.out_channels, self.kernel_size, self.geometry)

    def extra_repr(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        return f"{sizes}, {self.geometry}, bias={self.bias is not None}, density={self.density:.3g}"


def sparsify(
    model: nn.Module,
    density: float | None = None,
    distribution: Distribution = "erk",
    masks: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """Copy a model, with only a share of the weights in its Linear layers and convolutions without groups.

    density       share of all these weights together. Each layer keeps its largest weights
    distribution  "erk": layers with few weights are denser, "uniform": all layers have one density
    masks         masks by module name, instead of a density. Layers that are not named keep all weights
    Raises        ValueError for both or neither of density and masks, or for a name that is not the name of such a
                  layer
    """
    if (density is None) == (masks is None):
        raise ValueError(f"density={density} and {'no ' if masks is None else ''}masks; expected a density, or masks")
    found = copy.deepcopy(model)
    layers = {name: module for name, module in found.named_modules() if _can_be_sparse(module)}
    for name, kept in (_masks(layers, density, distribution) if masks is None else masks).items():
        if name not in layers:
            raise ValueError(f"mask of module {name!r}; expected one of {', '.join(layers)}")
        parent, _, last = name.rpartition(".")
        setattr(found.get_submodule(parent), last, _converted(layers[name], kept))
    return found


def _can_be_sparse(module: nn.Module) -> bool:
    if isinstance(module, nn.Conv2d):
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return isinstance(module, nn.Linear)


def _converted(module: nn.Module, kept: Tensor) -> _Sparse:
    if isinstance(module, nn.Linear):
        return SparseLinear.from_dense(module, kept)
    assert isinstance(module, nn.Conv2d)
    return SparseConv2d.from_dense(module, kept)


def _masks(layers: Mapping[str, Any], density: float | None, distribution: Distribution) -> dict[str, Tensor]:
    """Return the masks of the largest weights, for the layers that do not stay whole."""
    assert density is not None
    shapes = {name: tuple(module.weight.shape) for name, module in layers.items()}
    ones = counts(shapes, density, distribution)
    thinned = {name: count for name, count in ones.items() if count < math.prod(shapes[name])}
    return {name: _largest(layers[name].weight, count) for name, count in thinned.items()}


def _chosen(weight: Tensor, mask: Tensor | None, density: float | None) -> Tensor:
    if mask is not None and density is None:
        return mask
    if mask is not None or density is None or not 0 < density <= 1:
        given = "a mask" if mask is not None else "no mask"
        raise ValueError(f"density={density} and {given}; expected a mask, or a density above 0 and at most 1")
    return _largest(weight, round(density * weight.numel()))


def _largest(weight: Tensor, count: int) -> Tensor:
    """Return the mask of the `count` weights of largest magnitude. The first of equal weights are taken."""
    order = weight.detach().abs().reshape(-1).sort(descending=True, stable=True).indices
    kept = torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device)
    kept[order[:count]] = True
    return kept.view(weight.shape)


def _filled(layer: Any, sparse: _Sparse) -> Any:
    with torch.no_grad():
        layer.weight.copy_(sparse.weight())
        if sparse.bias is not None:
            layer.bias.copy_(sparse.bias)
    return layer.to(sparse.values.device, sparse.values.dtype).train(sparse.training)


def _pair(name: str, value: int | Pair) -> Pair:
    if isinstance(value, int):
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name}={value}; expected a number, or two")
    return int(value[0]), int(value[1])
