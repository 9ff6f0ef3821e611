"""Operations on single values and reductions along axes, as users write them, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl.models.graph.operations import Elementwise, Reduce

from .against_float64 import assert_as_in_float64
from .test_compositions import FEATURES, PLANES, SEQUENCE, Own


def softmax_by_hand(x: Tensor) -> Tensor:
    powers = torch.exp(x - x.amax(1, keepdim=True))
    return powers / powers.sum(1, keepdim=True)


def standardised(x: Tensor) -> Tensor:
    variance = x.var(dim=(1, 2), keepdim=True, correction=0)
    return (x - x.mean(dim=(1, 2), keepdim=True)) * torch.rsqrt(variance + 1e-5)


WRITTEN: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "a softmax": (softmax_by_hand, FEATURES),
    "standardised sequences": (standardised, SEQUENCE),
    "features of length 1": (functional.normalize, FEATURES),
    "channels of length 1": (lambda x: functional.normalize(x, dim=1), PLANES),
    "a norm of each plane": (lambda x: x / (x.norm(dim=(2, 3), keepdim=True) + 0.1), PLANES),
    "powers and roots": (lambda x: (x**2 + 1) ** 0.25 + (x.square() + 0.5).sqrt() ** -3, SEQUENCE),
    "sines": (lambda x: torch.sin(x) * torch.cos(2 * x) - torch.log(x * x + 1), PLANES),
    "clamped values": (lambda x: x.clamp(-0.3, 0.4) + x.clamp(min=0.1) * x.clamp(max=0.2), FEATURES),
    "a choice": (lambda x: torch.where(x > 0.1, x * 2, 1 - x), PLANES),
    "the larger of two": (lambda x: torch.maximum(x, 0.5 - x) + torch.minimum(x, x * x), FEATURES),
    "a constant first": (lambda x: torch.maximum(torch.tensor(0.1), x) + torch.minimum(x, x), FEATURES),
    "a difference": (lambda x: torch.abs(x[:, :3] - x[:, 3:]), FEATURES),
    "quotients": (lambda x: 1 / (1 + x * x) + x / (2 + torch.sin(x)), SEQUENCE),
    "a mean of everything": (lambda x: x - x.mean(dim=(1, 2, 3), keepdim=True), PLANES),
    "a mean of channels": (lambda x: x * x.mean(1, keepdim=True) + x.mean(dim=(1, 3), keepdim=True), PLANES),
    "the smallest of rows": (lambda x: x - x.amin(dim=2, keepdim=True), PLANES),
    "sums of places": (lambda x: torch.tanh(x).sum(dim=(2, 3)), PLANES),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_outputs_and_gradients_are_torchs(name: str) -> None:
    step, x = WRITTEN[name]
    model = assert_as_in_float64(Own(step, x), x, name)
    assert any(isinstance(node.op, Elementwise | Reduce) for node in model.graph.nodes)


class ScaledNorm(nn.Module):
    """GRN of ConvNeXt V2: parameters that are added to products of results and parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        length = x.norm(p=2, dim=(2, 3), keepdim=True)
        own = length / (length.mean(dim=1, keepdim=True) + 1e-6)
        return x + torch.addcmul(self.bias.view(1, -1, 1, 1), self.weight.view(1, -1, 1, 1), x * own)


def test_a_global_response_norm_is_taken() -> None:
    torch.manual_seed(6)
    model = nn.Sequential(nn.Conv2d(4, 4, 1), ScaledNorm(), nn.Flatten(), nn.Linear(24, 3))
    assert_as_in_float64(model, PLANES)
