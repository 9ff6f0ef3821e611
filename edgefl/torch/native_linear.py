"""nn.Linear over the native kernels, whole or with frozen neurons, where they are faster than torch's libraries.

kernel_choice.py says where they are faster, and conversion.py chooses the layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.torch import kernel_choice
from edgefl.torch.layer_selection import WHOLE, ActiveChannels, channels, extent, held, held_or_none, spread
from edgefl.torch.native_tensors import array, array_or_none, ops, serves


class NativeLinear(nn.Linear):
    """A Linear layer, y = x weight^T + bias. It keeps active inputs of x only, and computes active gradients only."""

    edgefl_active: ActiveChannels = WHOLE

    def forward(self, x: Tensor) -> Tensor:
        active, rows = self.edgefl_active, x.numel() // max(1, self.in_features)
        is_worth = active is not WHOLE or kernel_choice.linear(rows, self.in_features, self.out_features)
        if not is_worth or not self._serves(x):
            return F.linear(x, held(self.weight, active), held_or_none(self.bias, active))
        y: Tensor = LinearProduct.apply(x.reshape(rows, -1), self.weight, self.bias, active)
        return y if x.dim() == 2 else y.view(*x.shape[:-1], self.out_features)

    def _serves(self, x: Tensor) -> bool:
        return (
            not torch.compiler.is_compiling() and x.shape[-1] == self.in_features and serves(x, self.weight, self.bias)
        )


class LinearProduct(torch.autograd.Function):
    """The function (x [rows, inputs], weight [outputs, inputs], bias or None) -> [rows, outputs]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, active: ActiveChannels) -> Tensor:
        y = torch.empty(x.shape[0], weight.shape[0])
        ops().linear_forward(array(x), array(weight), array_or_none(bias), y.numpy())
        ctx.save_for_backward(channels(x, active.ins) if ctx.needs_input_grad[1] else None, weight, bias)
        ctx.active, ctx.needed = active, active.needed_input_channels(x)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        active: ActiveChannels = ctx.active
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a gradient of the gradient of a frozen Linear layer; expected select(module, None) before"
            )
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        output_grad, dx, dw, db = array(dy), None, None, None
        if needs_x:
            dx = (torch.empty if ctx.needed is None else torch.zeros)(dy.shape[0], weight.shape[1])
            ops().linear_grad_input(output_grad, array(weight), dx.numpy(), None, ctx.needed)
        rows = extent(active.outs, weight.shape[0])
        if needs_weight:
            compact = np.empty((rows, x.shape[1]), np.float32)
            ops().linear_grad_weight(array(x), output_grad, compact, active.outs, None)
            dw = spread(compact, weight.shape, active.outs, active.ins)
        if needs_bias:
            sums = np.empty(rows, np.float32)
            ops().channel_sum(output_grad, sums, active.outs)
            db = spread(sums, bias.shape, active.outs)
        return dx, dw, db, None
