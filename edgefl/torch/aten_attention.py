"""Attention written out: scaled_dot_product_attention on the results of Linear layers.

It is one SelfAttention if nn.MultiheadAttention computes the result. Otherwise it is an Attention of given queries,
keys and values (aten_heads.py).

Before and after the attention, forward only moves values. Where each value goes is found by moving the numbers 0, 1, 2,
... in its place. A SelfAttention fits if the numbers end where nn.MultiheadAttention has them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Attention, SelfAttention
from edgefl.torch.aten_compositions import matrix_product
from edgefl.torch.aten_heads import heads_of, joined, scale_of
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.aten_masks import AttentionMask, as_tensor, mask_of
from edgefl.torch.channel_attention import channel_attention
from edgefl.torch.code_lines import packet
from edgefl.torch.moved_values import MOVING, moved, numbered
from edgefl.torch.sequence_modules import SequenceSelfAttention
from edgefl.torch.sequence_table import is_causal_mask
from edgefl.torch.traced_call import refused
from edgefl.torch.transformer_modules import SequenceAttention
from edgefl.torch.written_attention import BiasTerm, written_attention, written_bias


def _attention(
    lift: Lifting, query: fx.Node, key: fx.Node, value: fx.Node, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    sizes = lift.extents(query)
    if len(sizes) != 4:
        raise GraphError(f"queries {sizes[1:]}; expected heads, steps and features")
    if not lift.drops_shares and not enable_gqa:
        try:
            return _self_attention(lift, (query, key, value), attn_mask, is_causal, scale)
        except GraphError:
            pass  # another form, which an Attention of given queries, keys and values has
    return _given(lift, (query, key, value), attn_mask, float(dropout_p), is_causal, scale)


def _given(
    lift: Lifting, nodes: tuple[fx.Node, fx.Node, fx.Node], attn_mask: Any, dropout: float, is_causal: bool,
    scale: float | None, terms: tuple[BiasTerm, ...] = (),
) -> Any:  # fmt: skip
    """Return the call for attention of queries, keys and values that forward makes."""
    query, key, value = nodes
    batch, heads, steps, size = sizes = lift.extents(query)
    if lift.extents(key)[2:] != (steps, size) or lift.extents(value)[2:] != (steps, size):
        raise GraphError(f"keys {lift.extents(key)[1:]} of queries {sizes[1:]}; expected as many steps and features")
    parts = (heads_of(lift, query), heads_of(lift, key), heads_of(lift, value))
    if parts[0].own != heads or parts[1].own != parts[2].own or heads % parts[1].own:
        raise GraphError(
            f"{parts[1].own} heads of keys and {parts[2].own} of values; expected a divisor of {heads} heads"
        )
    windows = lift.moves.windows.get(parts[2].source, 1) if parts[2].source is not None else 1
    mask = AttentionMask(is_causal) if attn_mask is None else _mask(lift, attn_mask, batch, heads)
    if terms:
        mask = written_bias(lift, terms, (windows, heads, steps, steps))
    factor = scale_of(parts, scale, size)
    counts, causal = (windows * heads, windows * parts[1].own), mask.causal or is_causal
    op = Attention(*counts, size, factor, causal, mask.window, dropout, mask.shape)
    found = lift.layer(SequenceAttention(op), {"bias": mask.bias}, joined(lift, parts, size), name="attention")
    return _result(lift, found, sizes, windows)


def _mask(lift: Lifting, attn_mask: Any, batch: int, heads: int) -> AttentionMask:
    if lift.is_value(attn_mask):
        raise GraphError("attn_mask is computed from the input; expected a constant or a parameter")
    if lift.is_parameter(attn_mask):
        return _trained_bias(lift, attn_mask, heads)
    return mask_of(as_tensor(lift.known(attn_mask)), batch, heads)


def _trained_bias(lift: Lifting, bias: fx.Node, heads: int) -> AttentionMask:
    """Return the mask for a bias [..., heads, queries, keys] of parameters, which all examples share."""
    sizes = tuple(1 if isinstance(size, torch.SymInt) else int(size) for size in bias.meta["val"].shape)
    masks, queries, keys = (*(1 for _ in range(3 - len(sizes))), *sizes)[-3:]
    if math.prod(sizes) != masks * queries * keys or masks not in (1, heads) or queries != keys:
        raise GraphError(f"a bias of shape {sizes} for {heads} heads; expected heads, queries and as many keys")
    name, shape = lift.permuted(bias, (masks, queries, keys), (0, 2, 1))
    return AttentionMask(bias=name, shape=shape)


def _self_attention(
    lift: Lifting, nodes: tuple[fx.Node, fx.Node, fx.Node], attn_mask: Any, is_causal: bool, scale: float | None
) -> Any:
    """Return the call for attention as nn.MultiheadAttention computes it."""
    query, key, value = nodes
    sizes = lift.extents(query)
    if scale is not None and not math.isclose(scale, sizes[3] ** -0.5, rel_tol=1e-6):
        raise GraphError(f"scale={scale} of queries {sizes[1:]}; expected 1 / sqrt(features)")
    layers = [_layer_before(lift, each) for each in (query, key, value)]
    if any(layer in lift.moves.windows for layer in layers):
        raise GraphError("self-attention within windows; expected an Attention with a head for each window")
    _check_places(lift, (query, key, value), layers, sizes)
    weights, biases = ([layer.args[at] if len(layer.args) > at else None for layer in layers] for at in (1, 2))
    features = lift.extents(weights[0])[1]  # type: ignore[arg-type]
    causal = is_causal or _is_causal(lift, attn_mask)
    op = SelfAttention(features, sizes[1], sizes[3], causal, biases[0] is not None)
    parts = {"in_proj_weight": _joined(lift, weights), "in_proj_bias": _joined(lift, biases)}
    read = lift.lifted(layers[0].args[0])
    is_batch_first = _is_batch_first(layers[0])
    source = lift.call(torch.transpose, read, 1, 2) if is_batch_first else lift.call(torch.permute, read, 1, 2, 0)
    result = lift.layer(SequenceSelfAttention(op), parts, source)
    return _result(lift, result, sizes)


def _result(lift: Lifting, found: fx.Node, sizes: tuple[int, ...], windows: int = 1) -> fx.Node:
    """Keep the call for the result [batch, features, steps], and return the call that refuses it by heads."""
    batch, heads, steps, size = sizes
    joined = numbered(sizes).transpose(1, 2).reshape(batch, steps, heads * size)
    turned, at = found, 1
    if windows > 1:
        turned, at = lift.call(torch.unflatten, found, 1, (windows, heads * size)), 2
    lift.moves.attended[lift.node] = (lift.call(torch.transpose, turned, at, at + 1), numbered(sizes), joined)
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


def _is_batch_first(layer: fx.Node) -> bool:
    """Return whether a layer's result is [batch, steps, features], and not [steps, batch, features]."""
    return isinstance(layer.meta["val"].shape[0], torch.SymInt)


def _check_places(lift: Lifting, moves: tuple[fx.Node, ...], layers: list[fx.Node], sizes: tuple[int, ...]) -> None:
    """Raise GraphError unless queries, keys and values lie in the layers' results as in nn.MultiheadAttention."""
    if any(layer.args[0] is not layers[0].args[0] for layer in layers):
        raise GraphError("queries, keys and values of different tensors; expected self-attention")
    batch, heads, steps, size = sizes
    parts = 3 if layers[0] is layers[1] else 1
    whole = numbered((batch, steps, parts, heads, size)).permute(2, 0, 3, 1, 4)
    if not _is_batch_first(layers[0]):
        whole = numbered((steps, batch, parts, heads, size)).permute(2, 1, 3, 0, 4)
    for at, (node, layer) in enumerate(zip(moves, layers, strict=True)):
        wanted: Tensor = whole[at if parts == 3 else 0]
        found = moved(lift, node, layer, numbered(lift.extents(layer)))
        if found.shape != wanted.shape or not torch.equal(found, wanted):
            raise GraphError("queries, keys and values in another order; expected the order of nn.MultiheadAttention")


def _product(lift: Lifting, input: Any, other: Any) -> Any:
    """Return the attention that a product with shares of values ends, or another product."""
    written = written_attention(lift, input, other)
    if written is None:
        return matrix_product(lift, input, other)
    nodes = (written.query, written.key, written.value)
    try:
        if written.gain is not None:
            raise GraphError("a parameter that multiplies scores of attention over steps; expected a number")
        return _given(lift, nodes, None, written.dropout, False, written.scale, written.terms)
    except GraphError as error:
        try:
            return channel_attention(lift, written)
        except GraphError:
            raise error from None


ATEN_ATTENTION: dict[str, Entry] = {"scaled_dot_product_attention": _attention, "matmul": _product}
"""The entries for attention, by the name of the ATen operation."""
