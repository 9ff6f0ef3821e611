"""Elementwise and Reduce as torch modules, for the module of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgefl.kernels.expression_steps import MOST_INPUTS
from edgefl.models.graph.expression import parsed
from edgefl.models.graph.operations import Elementwise, Reduce

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": torch.add, "difference": torch.sub, "product": torch.mul, "quotient": torch.div, "larger": torch.maximum,
    "smaller": torch.minimum, "power": torch.pow, "choice": lambda test, one, other: torch.where(test != 0, one, other),
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "sin": torch.sin, "cos": torch.cos, "magnitude": torch.abs,
    "less": lambda one, other: (one < other).to(other.dtype),
    "less_equal": lambda one, other: (one <= other).to(other.dtype),
    "equal": lambda one, other: (one == other).to(other.dtype),
}  # fmt: skip
"""The functions of torch for the steps of an expression but the constants."""


class Expression(nn.Module):
    """An expression of results, step by step."""

    def __init__(self, op: Elementwise) -> None:
        super().__init__()
        self.expression = op.expression

    def forward(self, *inputs: Tensor) -> Tensor:
        found = parsed(self.expression)
        values: dict[int, Tensor] = dict(enumerate(inputs))
        for number, step in enumerate(found.steps, start=MOST_INPUTS):
            if step.name == "constant":
                values[number] = torch.as_tensor(step.value, dtype=inputs[0].dtype, device=inputs[0].device)
            else:
                values[number] = FUNCTIONS[step.name](*(values[each] for each in step.reads))
        return values[found.last]

    def extra_repr(self) -> str:
        return self.expression


class Reduction(nn.Module):
    """A sum, a mean or an extreme along axes, which become extents of 1."""

    def __init__(self, op: Reduce) -> None:
        super().__init__()
        self.kind, self.axes = op.kind, tuple(axis + 1 for axis in op.axes)

    def forward(self, x: Tensor) -> Tensor:
        reduce: Any = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[self.kind]
        found: Tensor = reduce(x, self.axes, keepdim=True)
        return found

    def extra_repr(self) -> str:
        return f"{self.kind}, axes={self.axes}"
