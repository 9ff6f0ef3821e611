"""Attention written out: scaled_dot_product_attention on the results of Linear layers, as one SelfAttention.

Before and after the attention, forward only moves values. Where each value goes is found by moving the numbers 0, 1, 2,
... in its place. A SelfAttention fits if the numbers end where nn.MultiheadAttention has them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.models.graph.operations import SelfAttention
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.code_lines import packet
from edgefl.torch.moved_values import MOVING, moved, numbered
from edgefl.torch.sequence_modules import SequenceSelfAttention
from edgefl.torch.sequence_table import is_causal_mask
from edgefl.torch.traced_call import expect, refused


def _attention(
    lift: Lifting, query: fx.Node, key: fx.Node, value: fx.Node, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    expect("enable_gqa", enable_gqa, False)
    if dropout_p:
        raise GraphError(f"dropout={dropout_p} of attention's shares; expected 0")
    sizes = lift.extents(query)
    if len(sizes) != 4 or (scale is not None and not math.isclose(scale, sizes[3] ** -0.5, rel_tol=1e-6)):
        raise GraphError(
            f"scale={scale} of queries {sizes[1:]}; expected heads, steps, features and 1 / sqrt(features)"
        )
    layers = [_layer_before(lift, each) for each in (query, key, value)]
    _check_places(lift, (query, key, value), layers, sizes)
    weights, biases = ([layer.args[at] if len(layer.args) > at else None for layer in layers] for at in (1, 2))
    features = lift.extents(weights[0])[1]  # type: ignore[arg-type]
    causal = is_causal or _is_causal(lift, attn_mask)
    op = SelfAttention(features, sizes[1], sizes[3], causal, biases[0] is not None)
    parts = {"in_proj_weight": _joined(lift, weights), "in_proj_bias": _joined(lift, biases)}
    source = lift.call(torch.transpose, lift.lifted(layers[0].args[0]), 1, 2)
    result = lift.layer(SequenceSelfAttention(op), parts, source)
    batch, heads, steps, size = sizes
    joined = numbered(sizes).transpose(1, 2).reshape(batch, steps, heads * size)
    lift.attended[lift.node] = (lift.call(torch.transpose, result, 1, 2), numbered(sizes), joined)
    return lift.call(refused, "the result of attention before its heads are joined; expected (batch, steps, features)")


def _is_causal(lift: Lifting, mask: Any) -> bool:
    if mask is None:
        return False
    if lift.is_value(mask) or lift.is_parameter(mask):
        raise GraphError("attn_mask is computed from the input; expected a constant")
    found = lift.known(mask)
    found = ~found if found.dtype == torch.bool else found  # True takes part here, and is left out in a module's mask
    return is_causal_mask(found.reshape(found.shape[-2:]) if math.prod(found.shape[:-2]) == 1 else found)


def _joined(lift: Lifting, parts: list[Any]) -> str | fx.Node | None:
    """Return the weight of one Linear layer, or the name of the weights of three layers below each other."""
    if parts[0] is None or parts[0] is parts[1]:
        found: fx.Node | None = parts[0]
        return found
    if any(part is None for part in parts):
        raise GraphError("a bias for some of queries, keys and values; expected one for all of them, or for none")
    return lift.stacked(parts)


def _layer_before(lift: Lifting, node: fx.Node) -> fx.Node:
    """Return the Linear layer whose result a node moves."""
    while packet(node) in MOVING and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    if packet(node) != "linear" or not lift.is_value(node) or len(lift.extents(node)) != 3:
        raise GraphError("queries, keys and values that a Linear layer does not give; expected nn.MultiheadAttention")
    return node


def _check_places(lift: Lifting, moves: tuple[fx.Node, ...], layers: list[fx.Node], sizes: tuple[int, ...]) -> None:
    """Raise GraphError unless queries, keys and values lie in the layers' results as in nn.MultiheadAttention."""
    if any(layer.args[0] is not layers[0].args[0] for layer in layers):
        raise GraphError("queries, keys and values of different tensors; expected self-attention")
    batch, heads, steps, size = sizes
    parts = 3 if layers[0] is layers[1] else 1
    whole = numbered((batch, steps, parts, heads, size)).permute(2, 0, 3, 1, 4)
    for at, (node, layer) in enumerate(zip(moves, layers, strict=True)):
        wanted: Tensor = whole[at if parts == 3 else 0]
        found = moved(lift, node, layer, numbered(lift.extents(layer)))
        if found.shape != wanted.shape or not torch.equal(found, wanted):
            raise GraphError("queries, keys and values in another order; expected the order of nn.MultiheadAttention")


ATEN_ATTENTION: dict[str, Entry] = {"scaled_dot_product_attention": _attention}
"""The entry for attention, by the name of the ATen operation."""
