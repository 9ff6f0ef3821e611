"""Attention that forward writes as products and a softmax, read back from an exported graph: softmax(q k^T + bias) v.

Between the products, forward multiplies by numbers, adds biases that the input does not change, and drops weights.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.torch.aten_heads import scalar_product
from edgefl.torch.aten_lifting import Lifting
from edgefl.torch.aten_masks import LEAST, AttentionMask, mask_of
from edgefl.torch.aten_nodes import bare
from edgefl.torch.code_lines import packet
from edgefl.torch.moved_values import VIEWS


class BiasTerm(NamedTuple):
    """A constant or a parameter that is added to scores of these sizes."""

    node: Any
    sizes: tuple[int, ...]


class WrittenAttention(NamedTuple):
    """Queries, keys and values [batch, heads, steps, features], and what happens to the products of the first two.

    gain  parameter with a number for each head, by which the products are multiplied
    """

    query: fx.Node
    key: fx.Node
    value: fx.Node
    scale: float
    terms: tuple[BiasTerm, ...]
    dropout: float
    gain: Any = None


def written_attention(lift: Lifting, shares: Any, value: Any) -> WrittenAttention | None:
    """Return the attention that a product of shares and values ends, or None for another product."""
    if not (lift.is_value(shares) and lift.is_value(value)) or value.meta["val"].dim() != 4:
        return None
    node, dropout = bare(shares), 0.0
    if packet(node) == "dropout":
        dropout = float(node.args[1]) if node.args[2] else 0.0
        node = bare(node.args[0])
    if packet(node) not in ("softmax", "_softmax") or node.args[1] not in (-1, 3):
        return None
    product, scale, terms, gain = _scores(lift, bare(node.args[0]))
    if product is None:
        return None
    key = bare(product.args[1])
    if packet(key) != "transpose" or sorted(dim % 4 for dim in key.args[1:]) != [2, 3]:
        raise GraphError("keys of attention in another form; expected queries @ keys.transpose(-2, -1)")
    return WrittenAttention(bare(product.args[0]), key.args[0], value, scale, terms, dropout, gain)


def _scores(lift: Lifting, node: Any) -> tuple[Any, float, tuple[BiasTerm, ...], Any]:
    """Return the product of queries and keys or None, the number that multiplies it, what is added, and its gain."""
    scale, terms, gain = 1.0, list[BiasTerm](), None
    while isinstance(node, fx.Node):
        if packet(node) == "matmul":
            return (node if node.meta["val"].dim() == 4 else None), scale, tuple(terms), gain
        if packet(node) in ("add", "add_") and not node.kwargs and len(node.args) == 2:
            one, other = node.args if lift.is_value(node.args[0]) else node.args[::-1]
            if lift.is_value(other) or scale != 1:
                break
            terms.append(BiasTerm(other, lift.extents(node)))
            node = bare(one)
        elif (found := scalar_product(lift, node)) is not None:
            node, scale = found[0], scale * found[1]
        elif (times := _gain(lift, node)) is not None and gain is None:
            node, gain = times
        elif packet(node) in VIEWS and node.meta["val"].dim() in (4, 5):
            node = bare(node.args[0])
        else:
            break
    return None, scale, (), None


def _gain(lift: Lifting, node: fx.Node) -> tuple[Any, fx.Node] | None:
    """Return the value and the parameter [heads, 1, 1] that a node multiplies, or None for another node."""
    if packet(node) != "mul":
        return None
    for value, other in (node.args[:2], node.args[1::-1]):
        if lift.is_value(value) and lift.is_parameter(other):
            assert isinstance(other, fx.Node) and isinstance(value, fx.Node)
            sizes = tuple(other.meta["val"].shape)
            return (bare(value), other) if sizes[-3:] == (value.meta["val"].shape[1], 1, 1) else None
    return None


def written_bias(lift: Lifting, terms: tuple[BiasTerm, ...], shape: tuple[int, int, int, int]) -> AttentionMask:
    """Return the sum of all terms. Each of the windows has a bias of its own for each head.

    shape   numbers of windows, heads, queries and keys
    Raises  GraphError for more than one parameter, or a bias of other sizes
    """
    windows, heads, steps, _ = shape
    constants = [each for each in terms if not lift.is_parameter(each.node)]
    trained = [each.node for each in terms if lift.is_parameter(each.node)]
    fixed = sum((_of_windows(lift, each, shape) for each in constants), torch.zeros(shape))
    if not trained and windows == 1:
        return mask_of(fixed, 1, heads)
    fixed = fixed.clamp(min=LEAST).transpose(2, 3).reshape(windows * heads, steps, steps).contiguous()
    if not trained:
        return AttentionMask(bias=fixed, shape=tuple(fixed.shape))
    sizes = tuple(1 if isinstance(size, torch.SymInt) else int(size) for size in trained[0].meta["val"].shape)
    if len(trained) > 1 or math.prod(sizes) != heads * steps * steps:
        raise GraphError(f"{len(trained)} biases, of shape {sizes}; expected one for {heads} heads of {steps} steps")
    name = lift.bias(trained[0], (heads, steps, steps), windows, fixed if constants else None)
    return AttentionMask(bias=name, shape=(windows * heads, steps, steps))


def _of_windows(lift: Lifting, term: BiasTerm, shape: tuple[int, ...]) -> Tensor:
    """Return a constant term as [windows, heads, queries, keys]."""
    whole = torch.as_tensor(lift.known(term.node)).float().expand(term.sizes).reshape(-1, *shape)
    if not bool((whole == whole[:1]).all()):
        raise GraphError("a bias of attention differs from example to example; expected one that all examples share")
    return whole[0]
