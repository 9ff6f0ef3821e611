"""Attention between the channels of a head, as EdgeNeXt has it (cross-covariance attention, El-Nouby et al., 2021).

The channels of a head are the positions of an Attention, and its features are the steps. Queries and keys may be
divided by their lengths, and a parameter may multiply the scores of each head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Attention
from edgefl.torch.aten_expressions import ROOT
from edgefl.torch.aten_heads import heads_by_features
from edgefl.torch.aten_lifting import Lifting
from edgefl.torch.aten_nodes import bare
from edgefl.torch.code_lines import packet
from edgefl.torch.expression_calls import elementwise, reduction
from edgefl.torch.transformer_modules import SequenceAttention
from edgefl.torch.written_attention import WrittenAttention


def channel_attention(lift: Lifting, written: WrittenAttention) -> Any:
    """Return the call for attention between channels, [batch, heads, channels, steps].

    Raises  GraphError for queries, keys and values in another form
    """
    if written.terms:
        raise GraphError("attention between channels with a bias; expected no bias")
    _, heads, _, steps = lift.extents(written.value)
    query, key, value = (_channels(lift, node) for node in (written.query, written.key, written.value))
    if written.gain is not None:
        gain = lift.method("view", lift.lifted(written.gain), heads, 1, 1)
        query = lift.call(torch.mul, query, gain)
    rows = [lift.call(torch.flatten, lift.call(torch.transpose, each, 2, 3), 1, 2) for each in (query, key, value)]
    op = Attention(heads, heads, steps, written.scale, p=written.dropout)
    found = lift.layer(SequenceAttention(op), {}, lift.call(torch.cat, rows, 1), name="attention")
    return lift.call(torch.transpose, lift.call(torch.unflatten, found, 1, (heads, steps)), 2, 3)


def _channels(lift: Lifting, node: fx.Node) -> Any:
    """Return the call for queries, keys or values as [batch, heads, channels, steps]."""
    source, least = _of_length(node)
    _, heads, size, _ = lift.extents(source)
    found, start = heads_by_features(lift, source)
    value = lift.call(torch.transpose, lift.lifted(found), 1, 2)
    if lift.extents(found)[2] != heads * size:
        value = lift.call(torch.narrow, value, 1, start, heads * size)
    value = lift.call(torch.unflatten, value, 1, (heads, size))
    if least is None:
        return value
    total = lift.call(reduction, lift.call(elementwise, "a * a", value), "sum", (3,), True)
    lengths = lift.call(elementwise, f"maximum({ROOT}, {least!r})", total)
    return lift.call(elementwise, "a / b", value, lengths)


def _of_length(node: Any) -> tuple[fx.Node, float | None]:
    """Return the values that F.normalize divides by their lengths, and its eps. The eps is None for other values."""
    divided = bare(node)
    if packet(divided) != "div":
        return divided, None
    source, length = bare(divided.args[0]), bare(divided.args[1])
    length = bare(length.args[0]) if packet(length) in ("expand", "expand_as") else length
    norm = bare(length.args[0]) if packet(length) == "clamp_min" else length
    if packet(norm) != "linalg_vector_norm" or bare(norm.args[0]) is not source or norm.args[1:] != (2.0, [-1], True):
        raise GraphError("queries or keys that are divided; expected F.normalize along their steps")
    return source, float(length.args[1])
