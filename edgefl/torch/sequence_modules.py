"""Modules that mix the steps of a sequence [B, features, steps] as a graph does, for `to_torch`.

They have torch's parameter names. Gradients may be stopped at their neurons (gradient_cut.py). sequence_table.py reads
a user's modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl.models.graph.operations import RNN, SelfAttention

Hold = Callable[[Tensor], Tensor]  # returns its argument, whose last axis has the neurons, with gradient hooks


class SequenceRNN(nn.RNN):
    """An RNN that returns the states after each step as one tensor."""

    hold: Hold | None = None

    @classmethod
    def of(cls, op: RNN) -> SequenceRNN:
        """Return the module of an operation."""
        return cls(op.input_size, op.hidden_size, 1, "relu" if op.relu else "tanh", op.bias, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return _states(super().forward, x, self.hold, lambda state, carried: state)


class SequenceGRU(nn.GRU):
    """A GRU that returns the states after each step as one tensor."""

    hold: Hold | None = None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return _states(super().forward, x, self.hold, lambda state, carried: state)


class SequenceLSTM(nn.LSTM):
    """An LSTM that returns the states after each step as one tensor."""

    hold: Hold | None = None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return _states(super().forward, x, self.hold, lambda state, carried: (state, carried[1]))


def _states(run: Callable[..., Any], x: Tensor, hold: Hold | None, joined: Callable[[Tensor, Any], Any]) -> Tensor:
    """Return the states after each step. With `hold`, torch computes one step after another, and `hold` gets each
    state.

    joined  makes the state for the next step from a held state [1, B, units] and the state that torch returned
    """
    x = x.transpose(1, 2)
    if hold is None:
        whole: Tensor = run(x)[0]
        return whole.transpose(1, 2)
    found, carried = [], None
    for step in range(x.shape[1]):
        y, carried = run(x[:, step : step + 1], carried)
        found.append(hold(y))
        carried = carried if isinstance(carried, Tensor) else (carried[0], hold(carried[1]))
        carried = joined(found[-1].transpose(0, 1), carried)
    return torch.cat(found, 1).transpose(1, 2)


class SequenceSelfAttention(nn.Module):
    """Self-attention of a sequence like nn.MultiheadAttention, up to its out_proj, with its parameter names."""

    hold: Hold | None = None
    in_proj_weight: Tensor
    in_proj_bias: Tensor

    def __init__(self, op: SelfAttention) -> None:
        super().__init__()
        self.op = op
        for name, info in op.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(info.shape)))

    def forward(self, x: Tensor) -> Tensor:
        bias = self.in_proj_bias if self.op.bias else None
        qkv = functional.linear(x.transpose(1, 2), self.in_proj_weight, bias)
        qkv = self.hold(qkv) if self.hold else qkv
        q, k, v = (part.unflatten(2, (self.op.num_heads, -1)).transpose(1, 2) for part in qkv.chunk(3, 2))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=self.op.causal)
        return found.transpose(2, 3).flatten(1, 2)
