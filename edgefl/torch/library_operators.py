"""The kernels as operators of torch.library, with shapes for tracing and with gradients, for torch.compile.

Modules that are not compiled use autograd's functions, whose calls cost less. The operators take any strided float32
tensors on the CPU. Torch computes with other tensors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgefl.torch import convolution_kernels, norm_kernels, pool_kernels
from edgefl.torch.convolution_kernels import ConvolutionGeometry
from edgefl.torch.norm_kernels import Norm
from edgefl.torch.pool_kernels import PoolWindow

# The annotations have the forms that torch.library reads: torch.Tensor, lists and numbers.


@torch.library.custom_op("edgefl::convolution", mutates_args=(), device_types="cpu")
def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """Return a convolution like torch.nn.functional.conv2d."""
    return convolution_kernels.product(x, weight, bias, _geometry(stride, padding, dilation, groups))


@convolution.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
    geometry = _geometry(stride, padding, dilation, groups)
    return x.new_empty(convolution_kernels.extents(x.shape, weight.shape, geometry))


@torch.library.custom_op("edgefl::convolution_backward", mutates_args=(), device_types="cpu")
def convolution_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    needs: list[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of x, weight and bias. A gradient that is not needed is empty."""
    geometry = _geometry(stride, padding, dilation, groups)
    needs_x, needs_weight, needs_bias = needs
    dx = convolution_kernels.grad_input(dy, weight, x.shape, geometry) if needs_x else x.new_empty(0)
    dw = convolution_kernels.grad_weight(x, dy, weight.shape, geometry) if needs_weight else x.new_empty(0)
    return dx, dw, convolution_kernels.grad_bias(dy) if needs_bias else x.new_empty(0)


@convolution_backward.register_fake
def _(
    dy: Tensor, x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, needs: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (x.shape, weight.shape, weight.shape[:1])
    dx, dw, db = (x.new_empty(shape if need else (0,)) for shape, need in zip(shapes, needs, strict=True))
    return dx, dw, db


def _convolution_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, *ctx.settings = inputs
    ctx.save_for_backward(x, weight)


def _convolution_gradients(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    needs = list(ctx.needs_input_grad[:3])
    found = convolution_backward(dy, *ctx.saved_tensors, *ctx.settings, needs)
    kept = (gradient if need else None for gradient, need in zip(found, needs, strict=True))
    return *kept, None, None, None, None


convolution.register_autograd(_convolution_gradients, setup_context=_convolution_setup)


@torch.library.custom_op("edgefl::batch_norm_relu", mutates_args=(), device_types="cpu")
def _batch_norm_relu(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    eps: float,
    momentum: float,
    relu6: bool,
    halved: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the block's result, the batch's mean and 1 / deviation, and the moved running statistics."""
    moved = running_mean.clone(), running_var.clone()
    return *norm_kernels.rectified(x, weight, bias, moved, Norm(0, eps, momentum, relu6, halved)), *moved


@_batch_norm_relu.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, eps: float, momentum: float,
    relu6: bool, halved: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _block(x, halved), *(weight.new_empty(weight.shape) for _ in range(4))


def batch_norm_relu(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, eps: float, momentum: float,
    relu6: bool, halved: bool,
) -> Tensor:  # fmt: skip
    """Return the block's result and move the running statistics."""
    y, _, _, mean, var = _batch_norm_relu(x, weight, bias, running_mean, running_var, eps, momentum, relu6, halved)
    running_mean.copy_(mean.detach())
    running_var.copy_(var.detach())
    return y


@torch.library.custom_op("edgefl::group_norm_relu", mutates_args=(), device_types="cpu")
def _group_norm_relu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, eps: float, halved: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the block's result, and the mean and 1 / deviation of each sample's groups."""
    return norm_kernels.rectified(x, weight, bias, None, Norm(groups, eps, halved=halved))


@_group_norm_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, halved: bool) -> tuple[Tensor, Tensor, Tensor]:
    return _block(x, halved), x.new_empty(x.shape[0], groups), x.new_empty(x.shape[0], groups)


def group_norm_relu(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, halved: bool) -> Tensor:
    """Return the block's result."""
    y: Tensor = _group_norm_relu(x, weight, bias, groups, eps, halved)[0]
    return y


@torch.library.custom_op("edgefl::norm_relu_backward", mutates_args=(), device_types="cpu")
def norm_relu_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    inv_std: torch.Tensor,
    groups: int,
    eps: float,
    relu6: bool,
    halved: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of x, weight and bias of a block with a batch norm or a group norm."""
    return norm_kernels.gradients(dy, x, weight, bias, mean, inv_std, Norm(groups, eps, 0.0, relu6, halved))


@norm_relu_backward.register_fake
def _(
    dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, inv_std: Tensor, groups: int, eps: float,
    relu6: bool, halved: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return x.new_empty(x.shape), weight.new_empty(weight.shape), bias.new_empty(bias.shape)


def _batch_norm_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, _, _, eps, _, relu6, halved = inputs
    ctx.save_for_backward(x, weight, bias, *output[1:3])
    ctx.settings = (0, eps, relu6, halved)


def _group_norm_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, groups, eps, halved = inputs
    ctx.save_for_backward(x, weight, bias, *output[1:])
    ctx.settings = (groups, eps, False, halved)


def _batch_norm_gradients(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Any, ...]:
    return *norm_relu_backward(dy, *ctx.saved_tensors, *ctx.settings), *(None,) * 6


def _group_norm_gradients(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Any, ...]:
    return *norm_relu_backward(dy, *ctx.saved_tensors, *ctx.settings), None, None, None


_batch_norm_relu.register_autograd(_batch_norm_gradients, setup_context=_batch_norm_setup)
_group_norm_relu.register_autograd(_group_norm_gradients, setup_context=_group_norm_setup)


@torch.library.custom_op("edgefl::max_pool", mutates_args=(), device_types="cpu")
def _max_pool(
    x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool, is_rectified: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the max pool of x or ReLU(x), the code of each largest cell, and one bit for each result above 0."""
    y, codes, bits = pool_kernels.largest(x, _window(kernel, stride, padding, ceil_mode, is_rectified))
    return y, codes, x.new_empty(0, dtype=torch.uint8) if bits is None else bits


@_max_pool.register_fake
def _(
    x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, is_rectified: bool
) -> tuple[Tensor, Tensor, Tensor]:
    window = _window(kernel, stride, padding, ceil_mode, is_rectified)
    shape = pool_kernels.extents(x.shape, window)
    bits = pool_kernels.bits_shape(shape) if is_rectified else (0,)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.uint8), x.new_empty(bits, dtype=torch.uint8)


def max_pool(x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, is_rectified: bool) -> Tensor:
    """Return the max pool of x or ReLU(x)."""
    y: Tensor = _max_pool(x, kernel, stride, padding, ceil_mode, is_rectified)[0]
    return y


@torch.library.custom_op("edgefl::max_pool_backward", mutates_args=(), device_types="cpu")
def max_pool_backward(
    dy: torch.Tensor,
    codes: torch.Tensor,
    bits: torch.Tensor,
    shape: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    is_rectified: bool,
) -> torch.Tensor:
    """Return the gradient of x, which has this shape."""
    window = _window(kernel, stride, padding, ceil_mode, is_rectified)
    return pool_kernels.grad_input(dy, codes, bits if is_rectified else None, tuple(shape), window)


@max_pool_backward.register_fake
def _(
    dy: Tensor, codes: Tensor, bits: Tensor, shape: list[int], kernel: Any, stride: Any, padding: Any,
    ceil_mode: bool, is_rectified: bool,
) -> Tensor:  # fmt: skip
    return dy.new_empty(shape)


def _max_pool_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, *ctx.settings = inputs
    ctx.shape = x.shape
    ctx.save_for_backward(*output[1:])


def _max_pool_gradients(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Any, ...]:
    return max_pool_backward(dy, *ctx.saved_tensors, list(ctx.shape), *ctx.settings), *(None,) * 5


_max_pool.register_autograd(_max_pool_gradients, setup_context=_max_pool_setup)


def _geometry(stride: Any, padding: Any, dilation: Any, groups: int) -> ConvolutionGeometry:
    return ConvolutionGeometry(tuple(stride), tuple(padding), tuple(dilation), groups)


def _window(kernel: Any, stride: Any, padding: Any, ceil_mode: bool, is_rectified: bool) -> PoolWindow:
    return PoolWindow(tuple(kernel), tuple(stride), tuple(padding), ceil_mode, is_rectified)


def _block(x: Tensor, halved: bool) -> Tensor:
    """Return an empty result of a norm's block on x."""
    return x.new_empty((*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2) if halved else x.shape)
