"""nn.Conv2d over the native kernels, whole or with frozen channels.

conversion.py chooses the layers, and library_operators.py serves torch.compile.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.torch import kernel_choice, library_operators
from edgefl.torch.convolution_kernels import ConvolutionGeometry, grad_bias, grad_input, grad_weight, product, read
from edgefl.torch.layer_selection import WHOLE, ActiveChannels, channels, held, held_or_none
from edgefl.torch.native_tensors import again, serves


class NativeConv2d(nn.Conv2d):
    """A convolution whose padding is zeros and is given in numbers. Other convolutions stay nn.Conv2d."""

    edgefl_active: ActiveChannels = WHOLE

    def forward(self, x: Tensor) -> Tensor:
        active, weight, bias = self.edgefl_active, self.weight, self.bias
        if x.dim() != 4 or not self._is_worth(x) or not serves(x, weight, bias):
            return self._conv_forward(x, held(weight, active), held_or_none(bias, active))
        geometry = ConvolutionGeometry(self.stride, self.padding, self.dilation, self.groups)  # type: ignore[arg-type]
        if torch.compiler.is_compiling():
            weight, bias = held(weight, active), held_or_none(bias, active)
            return library_operators.convolution(x, weight, bias, *map(list, geometry[:3]), self.groups)
        y: Tensor = Convolution.apply(x, weight, bias, geometry, active)
        return y

    def _is_worth(self, x: Tensor) -> bool:
        cells = x.shape[2] * x.shape[3]
        is_frozen = self.edgefl_active is not WHOLE
        return is_frozen or kernel_choice.convolution(self.kernel_size, self.stride, self.groups, cells)


class Convolution(torch.autograd.Function):
    """The function (x [batch, inputs, height, width], weight, bias or None) -> [batch, outputs, ...]."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: ConvolutionGeometry, active: ActiveChannels
    ) -> Tensor:
        kept = channels(x, read(active, weight.shape, geometry.groups)) if ctx.needs_input_grad[1] else None
        ctx.save_for_backward(kept, weight, bias)
        ctx.shape, ctx.geometry, ctx.active, ctx.needed = x.shape, geometry, active, active.needed_input_channels(x)
        return product(x, weight, bias, geometry)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        geometry, active = ctx.geometry, ctx.active
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        if torch.is_grad_enabled():
            return *_again(x, weight, bias, geometry, active, dy), None, None
        dx = grad_input(dy, weight, ctx.shape, geometry, ctx.needed) if needs_x else None
        dw = grad_weight(x, dy, weight.shape, geometry, active) if needs_weight else None
        return dx, dw, grad_bias(dy, active) if needs_bias else None, None, None


def _again(
    x: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    geometry: ConvolutionGeometry,
    active: ActiveChannels,
    dy: Tensor,
) -> list[Tensor | None]:
    """Return gradients that can be differentiated in turn. Raises RuntimeError if the layer has frozen neurons."""
    if x is None or active is not WHOLE:
        missing = "of which not the whole input was kept"
        raise RuntimeError(
            f"the gradient of a gradient of a convolution {missing}; expected a convolution without frozen neurons"
        )
    return again(lambda x, weight, bias: F.conv2d(x, weight, bias, *geometry), (x, weight, bias), dy)
