"""The functions and methods of torch that graph_converter.py reads itself, by what they do."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from edgefl.models.graph.operations import AddParameter, MulParameter, WithParameter

ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv)
COMBINING: dict[Any, type[WithParameter]] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), AddParameter),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), MulParameter),
}
OVERWRITING = (operator.iadd, operator.imul, "add_", "mul_")
JOINS = (torch.cat, torch.concat, torch.concatenate)
SOFTMAXES: dict[Any, type[nn.Module]] = {
    functional.softmax: nn.Softmax,
    torch.softmax: nn.Softmax,
    "softmax": nn.Softmax,
    functional.log_softmax: nn.LogSoftmax,
    torch.log_softmax: nn.LogSoftmax,
    "log_softmax": nn.LogSoftmax,
}
