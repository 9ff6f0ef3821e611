"""Modules that mix the steps of a sequence [B, features, steps] as in a graph, under torch's names of parameters, for
`to_torch`. Gradients may be stopped at their neurons (gradient_cut.py). A user's module is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl.models.graph.operations import SelfAttention

Hold = Callable[[Tensor], Tensor]  # of values whose last axis has the neurons: the same, with what happens to signals


class SequenceGRU(nn.GRU):
    """States after each step, as one."""

    hold: Hold | None = None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return _states(super().forward, x, self.hold, lambda state, carried: state)


class SequenceLSTM(nn.LSTM):
    """The same of an LSTM."""

    hold: Hold | None = None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return _states(super().forward, x, self.hold, lambda state, carried: (state, carried[1]))


def _states(run: Callable[..., Any], x: Tensor, hold: Hold | None, joined: Callable[[Tensor, Any], Any]) -> Tensor:
    """At once; or step by step, where something happens at the states between.

    joined  of a state [1, B, units] and what torch carries on, what the next step is given
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
    """nn.MultiheadAttention of a line to itself, up to its out_proj, with its names."""

    hold: Hold | None = None

    def __init__(self, op: SelfAttention) -> None:
        super().__init__()
        self.op = op
        for name, info in op.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(info.shape)))

    def forward(self, x: Tensor) -> Tensor:
        bias = self._parameters.get("in_proj_bias")
        qkv = functional.linear(x.transpose(1, 2), self.get_parameter("in_proj_weight"), bias)
        qkv = self.hold(qkv) if self.hold else qkv
        q, k, v = (part.unflatten(2, (self.op.num_heads, -1)).transpose(1, 2) for part in qkv.chunk(3, 2))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=self.op.causal)
        return found.transpose(2, 3).flatten(1, 2)
