"""Modules for the operations of Transformers on sequences [B, features, steps], for `to_torch`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgefl.models.graph.operations import Attention, Operation, RMSNorm, Rotary


class _WithOperation(nn.Module):
    """A module that has the settings and the parameters of an operation."""

    def __init__(self, op: Operation) -> None:
        super().__init__()
        self.op = op
        for name, info in op.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(info.shape)))


class SequenceAttention(_WithOperation):
    """Attention of queries, keys and values that lie one below the other. Its weights are [B, heads, keys, queries]."""

    op: Attention
    bias: Tensor

    def __init__(self, op: Attention) -> None:
        super().__init__(op)
        self.dropout = nn.Dropout(op.p)

    def forward(self, x: Tensor) -> Tensor:
        op = self.op
        sizes = [heads * op.head_dim for heads in (op.num_heads, op.kv_heads, op.kv_heads)]
        q, k, v = (part.unflatten(1, (-1, op.head_dim)) for part in x.split(sizes, 1))
        k, v = (part.repeat_interleave(op.num_heads // op.kv_heads, 1) for part in (k, v))
        scores = k.transpose(2, 3) @ q * op.scale
        if op.bias:
            scores = scores + self.bias.repeat_interleave(op.num_heads // op.bias[0], 0)
        if op.causal:
            left_out = torch.ones_like(scores[0, 0], dtype=torch.bool).tril(-1)
            if op.window:
                left_out = left_out | ~left_out.new_ones(left_out.shape).tril(op.window - 1)
            scores = scores.masked_fill(left_out, -torch.inf)
        return (v @ self.dropout(scores.softmax(2))).flatten(1, 2)


class SequenceRMSNorm(_WithOperation):
    """An RMSNorm of runs of channels at each position of [B, channels, ...]."""

    op: RMSNorm
    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        runs = x.unflatten(1, (-1, self.op.num_features))
        normal = runs * torch.rsqrt(runs.pow(2).mean(2, keepdim=True) + self.op.eps)
        gain = (self.weight + self.op.offset).view(-1, *(1 for _ in x.shape[2:]))
        return (normal * gain).flatten(1, 2)


class SequenceRotary(_WithOperation):
    """Rotary positions of runs of channels of [B, channels, steps]."""

    op: Rotary
    cos: Tensor
    sin: Tensor

    def forward(self, x: Tensor) -> Tensor:
        runs = x.unflatten(1, (-1, self.op.head_dim))
        first, second = runs.chunk(2, 2)
        turned = torch.cat((-second, first), 2)
        shape = (1, 1, self.op.head_dim, *x.shape[2:])
        return (runs * self.cos.view(shape) + turned * self.sin.view(shape)).flatten(1, 2)


KINDS: tuple[tuple[type[_WithOperation], type[Operation]], ...] = (
    (SequenceAttention, Attention),
    (SequenceRMSNorm, RMSNorm),
    (SequenceRotary, Rotary),
)
"""The modules, each with its operation."""
