"""PyTorch's side: whole training steps and single products, eager and on the fastest dense paths of this build.

These are the paths of a step, all with ready float32 inputs (the native step gathers and scales its batch as well):

    eager                    NCHW, nn.Linear, torch.optim.SGD with its defaults
    channels_last            the model and its input in channels_last, fused SGD
    onednn_linear            NCHW, every Linear through mkldnn::_linear_pointwise in both directions, fused SGD
    channels_last+onednn     both

Masking gradients would add to the time of any path, and is left out. torch.compile is not among the paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.runner import Contender
from edgefl.models.graph import Model
from edgefl.models.graph.operations import Conv2d
from edgefl.torch import to_torch

LEARNING_RATE = 1e-3
EAGER = "eager"
PATHS = (EAGER, "onednn_linear", "channels_last", "channels_last+onednn")


def step(path: str, model: Model, x: Tensor, y: Tensor) -> Contender:
    """Return training steps on one of PATHS, with a copy of the model. x is float32 [B, ...], y is int64 [B]."""
    is_eager, channels_last = path == EAGER, "channels_last" in path
    module: nn.Module = to_torch(model)
    if "onednn" in path:
        _use_onednn_linear(module)
    if channels_last and x.ndim == 4:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)
    return _step(module, x, y, fused=not is_eager)


def _step(module: nn.Module, x: Tensor, y: Tensor, fused: bool) -> Contender:
    optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, **({"fused": True} if fused else {}))

    def run(repeats: int) -> None:
        for _ in range(repeats):
            optimiser.zero_grad(set_to_none=True)
            functional.cross_entropy(module(x), y).backward()
            optimiser.step()

    return run


def products(op: Any, x: Tensor, weight: Tensor, dy: Tensor, kind: str) -> dict[str, Contender]:
    """Return one product of a layer by path, without bias. `kind` is "forward", "grad_input" or "grad_weight"."""
    calls = _conv_products(op, x, weight, dy) if isinstance(op, Conv2d) else _linear_products(x, weight, dy)
    return {path: _repeated(call) for path, call in calls[kind].items()}


def _repeated(call: Callable[[], object]) -> Contender:
    def run(repeats: int) -> None:
        with torch.no_grad():
            for _ in range(repeats):
                call()

    return run


def _conv_products(op: Conv2d, x: Tensor, weight: Tensor, dy: Tensor) -> dict[str, dict[str, Callable[[], object]]]:
    geometry = (list(op.stride), list(op.padding), list(op.dilation))

    def calls(x: Tensor, weight: Tensor, dy: Tensor) -> dict[str, Callable[[], object]]:
        def backward(mask: list[bool]) -> object:
            return torch.ops.aten.convolution_backward(
                dy, x, weight, None, *geometry, False, [0, 0], op.groups, mask
            )  # fmt: skip

        return {
            "forward": lambda: functional.conv2d(x, weight, None, op.stride, op.padding, op.dilation, op.groups),
            "grad_input": lambda: backward([True, False, False]),
            "grad_weight": lambda: backward([False, True, False]),
        }

    turned = [each.contiguous(memory_format=torch.channels_last) for each in (x, weight, dy)]
    paths = {EAGER: calls(x, weight, dy), "channels_last": calls(*turned)}
    return {kind: {path: paths[path][kind] for path in paths} for kind in ("forward", "grad_input", "grad_weight")}


def _linear_products(x: Tensor, weight: Tensor, dy: Tensor) -> dict[str, dict[str, Callable[[], object]]]:
    return {
        "forward": {EAGER: lambda: functional.linear(x, weight), "onednn_linear": lambda: _onednn(x, weight)},
        "grad_input": {EAGER: lambda: dy @ weight, "onednn_linear": lambda: _onednn(dy, weight.t())},
        "grad_weight": {EAGER: lambda: dy.t() @ x, "onednn_linear": lambda: _onednn(dy.t(), x.t())},
    }


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x @ weight.T + bias by oneDNN's inner product."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return result


class _OneDnnLinear(torch.autograd.Function):
    """A Linear layer whose three products are oneDNN's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        (dy,), (x, weight) = grads, ctx.saved_tensors
        dx = _onednn(dy, weight.t()) if ctx.needs_input_grad[0] else None
        return dx, _onednn(dy.t(), x.t()), dy.sum(0) if ctx.has_bias else None


class _OneDnn(nn.Module):
    """A module with a Linear module's parameters, computed by oneDNN."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _OneDnnLinear.apply(x, self.weight, self.bias)
        return y


def _use_onednn_linear(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, _OneDnn(child))
        else:
            _use_onednn_linear(child)
