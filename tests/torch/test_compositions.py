"""ATen operations that become several operations of a graph, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.torch import from_torch

from .against_float64 import assert_as_in_float64

DRAW = torch.Generator().manual_seed(2)
FEATURES, SEQUENCE, PLANES = (torch.randn(5, *shape, generator=DRAW) for shape in ((6,), (4, 6), (4, 3, 2)))


class Own(nn.Module):
    """A module whose forward is a function of the module and its input, between two layers."""

    def __init__(self, step: Callable[[Tensor], Tensor], x: Tensor) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.step = step
        self.first = nn.Conv2d(4, 4, 1) if x.dim() == 4 else nn.Linear(6, 6)
        with torch.no_grad():
            self.fc = nn.Linear(step(self.first(x)).flatten(1).shape[1], 3)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.step(self.first(x)).flatten(1))


def shuffled(x: Tensor) -> Tensor:
    batch, channels, height, width = x.shape
    return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(x.shape)


def split(x: Tensor) -> Tensor:
    first, second, third = x.split([1, 3, 2], dim=1)
    return torch.cat([third, first * 2, torch.tanh(second)], 1)


TAKEN: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "a magnitude": (torch.abs, FEATURES),
    "a sum of features": (lambda x: x.sum(1, keepdim=True) * 0.5, FEATURES),
    "a sum of channels": (lambda x: torch.tanh(x).sum(1), PLANES),
    "a sum of steps": (lambda x: x.sum(dim=1), SEQUENCE),
    "halves of features": (lambda x: torch.mul(*x.chunk(2, 1)), FEATURES),
    "parts of features": (split, FEATURES),
    "one feature": (lambda x: torch.abs(x[:, 4:5]) + x[:, 1:2], FEATURES),
    "halves of channels": (lambda x: torch.cat([torch.sigmoid(y) for y in torch.split(x, 2, 1)][::-1], 1), PLANES),
    "steps": (lambda x: torch.abs(sum(x.unbind(1))), SEQUENCE),
    "stacked features": (lambda x: torch.stack([x, torch.tanh(x)], 1) * 2, FEATURES),
    "stacked steps": (lambda x: torch.stack([x[:, 1], torch.tanh(x[:, 0])], 2), SEQUENCE),
    "products of pairs of steps": (lambda x: torch.bmm(x, x.transpose(1, 2)), SEQUENCE),
    "a product of results": (lambda x: torch.tanh(x).transpose(1, 2) @ x, SEQUENCE),
    "a triangle of products": (
        lambda x: (x @ x.transpose(1, 2))[:, torch.tensor([1, 2, 2, 3]), torch.tensor([0, 0, 1, -1])],
        SEQUENCE,
    ),
    "features in another order": (lambda x: x[:, torch.tensor([4, 5, 1, 0])], FEATURES),
    "shifted planes": (lambda x: torch.roll(torch.abs(x), (1, -3), (2, 1)), PLANES),
    "every other channel": (lambda x: torch.cat([x[:, ::2], torch.abs(x[:, 1::2])], 1), PLANES),
    "rows of planes": (lambda x: torch.abs(x[:, :, 1:]) * x[:, :, ::3], PLANES),
    "four exchanged axes": (
        lambda x: torch.abs(x).view(-1, 2, 2, 3, 2).permute(0, 4, 3, 2, 1).reshape(-1, 4, 3, 2),
        PLANES,
    ),
    "shares of features": (lambda x: torch.softmax(3 * x, 1) * x, FEATURES),
    "shares of steps": (lambda x: (torch.softmax(x[..., :1], 1) * x).sum(1), SEQUENCE),
    "logarithms of shares of channels": (lambda x: torch.abs(torch.log_softmax(x, 1)), PLANES),
    "a channel shuffle": (shuffled, PLANES),
    "a channel shuffle of uneven groups": (lambda x: shuffled(torch.cat([x, torch.abs(x[:, :2])], 1)), PLANES),
}


@pytest.mark.parametrize("name", TAKEN)
def test_outputs_and_gradients_are_torchs(name: str) -> None:
    step, x = TAKEN[name]
    assert_as_in_float64(Own(step, x), x, name)


class Attended(nn.Module):
    """Attention of nn.MultiheadAttention, which torch.fx cannot trace because of a branch on the shape."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.attention, self.fc = nn.MultiheadAttention(6, 2, batch_first=batch_first), nn.Linear(24, 3)
        self.batch_first = batch_first

    def forward(self, x: Tensor) -> Any:
        x = torch.abs(x) if self.batch_first else torch.abs(x).transpose(0, 1)
        y = self.attention(x, x, x, need_weights=False)[0]
        return self.fc((y if self.batch_first else y.transpose(0, 1)).flatten(1))


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_of_a_module_is_taken(batch_first: bool) -> None:
    model = assert_as_in_float64(Attended(batch_first), SEQUENCE)
    assert [type(node.op).__name__ for node in model.graph.nodes].count("SelfAttention") == 1


class Tokens(nn.Module):
    """A token for each number: a number times a row of a parameter, plus a row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.weight, self.bias = (nn.Parameter(torch.randn(6, 4)) for _ in range(2))
        self.fc = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Any:
        return self.fc(torch.abs(torch.abs(x).unsqueeze(-1) * self.weight + self.bias).flatten(1))


def test_a_parameter_with_more_positions_repeats_the_value() -> None:
    assert_as_in_float64(Tokens(), FEATURES)


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, str]] = {
    "all axes": (lambda x: torch.abs(x) + x.sum(), FEATURES, "torch.sum: dim=(0, 1); expected axes without the batch"),
    "channels from the end": (
        lambda x: torch.abs(x)[:, 1::3], PLANES, "of 4 channels; expected consecutive channels, or one of each few"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_composition_is_refused(name: str) -> None:
    step, x, message = REFUSED[name]
    with pytest.raises(GraphError) as error:
        from_torch(Own(step, x), x)
    assert message in str(error.value)
