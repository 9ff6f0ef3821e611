"""The channels of each result that need a gradient. A pure function computes channel sets from graph and blocks.

A result needs its gradient where its producer computes something from it: the gradients of the producer's own active
parameters, and what the producer's inputs need in turn. So the sets grow from the input of the graph to its output:

* A convolution or Linear layer needs all output channels if anything below it is trained. A grouped convolution needs
  all channels of the groups that lead to a needed input. If nothing below is trained, only active channels are needed.
* Attention needs whole heads, and only the active heads if nothing below it is trained. A recurrent layer needs all its
  units, because every step reads all states.
* A GroupNorm needs whole groups, and a LayerNorm needs everything. BatchNorm, ReLU, pooling, Add and Mul need the
  channels that are needed below.
* Flatten needs the features of these channels. Concat needs the channels of each result at their positions. A Permute
  that moves the channels needs all channels.

This is the exact gradient (FedSPU Eq. 4): it passes through frozen neurons. With delta="cut" the gradient at the output
of every convolution and Linear layer is taken as zero on frozen neurons, so these layers need active channels only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgefl.learning.fit_options import Delta
from edgefl.learning.lowering.channel_sets import NONE, beside, folded, is_empty, members, owners, union
from edgefl.learning.lowering.schedule import Index
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import (
    AdapterSum,
    Attention,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Elementwise,
    Embedding,
    Flatten,
    FlattenPlaces,
    GaussianNoise,
    GroupNorm,
    LayerNorm,
    Linear,
    Mul,
    Operation,
    Permute,
    Recurrent,
    Reduce,
    Reshape,
    RMSNorm,
    SelfAttention,
    WithParameter,
)

RowsCols = tuple[Index, Index]
PRODUCTS = (Conv2d, ConvTranspose2d, Linear, Recurrent, SelfAttention)
"""Layers with neurons of their own. The gradient of their weights reads their input."""


def own_rows(node: Node, blocks: Mapping[str, RowsCols]) -> Index:
    """Return the output channels of a node with a trained parameter. The list is empty for every other node."""
    rows = joined_rows(node, blocks)
    if isinstance(node.op, Attention):  # a bias belongs to positions
        return rows if is_empty(rows) else None
    if isinstance(node.op, Recurrent | SelfAttention):  # the rows of all gates, or of queries, keys and values
        return folded(rows, node.op.hidden_size if isinstance(node.op, Recurrent) else node.op.features)
    return rows


def joined_rows(node: Node, blocks: Mapping[str, RowsCols]) -> Index:
    """Return the rows of `own_rows` in all gates of a recurrent layer, or in queries, keys and values of attention."""
    rows: Index = NONE
    for name, info in node.op.parameters().items():  # a trained bias may come with a frozen weight, or with other rows
        block, axis = blocks.get(node.full_name(name)), int(name == node.op.main and _has_columns(node.op))
        if block is not None:
            rows = union(rows, block[axis], info.shape[axis])
    return rows


def _has_columns(op: Operation) -> bool:
    """Return whether the operation's neurons lie along axis 1 of its parameter."""
    if isinstance(op, WithParameter):
        return op.channels_last and len(op.shape) == 2
    return isinstance(op, ConvTranspose2d | Embedding)


def gradient_needs(graph: Graph, blocks: Mapping[str, RowsCols], delta: Delta) -> dict[str, Index]:
    """Return for each result the channels whose gradient is needed. Results that need no gradient are absent."""
    needs: dict[str, Index] = {}
    for node in graph.nodes:
        below = [needs.get(name, NONE) for name in node.inputs]
        rows = own_rows(node, blocks)
        if delta == "cut" and isinstance(node.op, PRODUCTS):
            above = rows
        else:
            reach = _REACH.get(type(node.op), _same)(graph, node, below)
            above = _spread(node, union(rows, reach, graph.shapes[node.name][0]))
        if not is_empty(above):
            needs[node.name] = above
    return needs


def _same(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    found = below[0]
    for more in below[1:]:
        found = union(found, more, graph.shapes[node.name][0])
    return found


def _gated(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    """A gate for each place needs all channels, over which its gradient is a sum."""
    gated, gate = (graph.shapes[name][0] for name in node.inputs)
    return _same(graph, node, below) if gate == gated or is_empty(below[1]) else None


def _broadcast(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    """An input with one channel for all needs all channels, over which its gradient is a sum."""
    channels = [graph.shapes[name][0] for name in node.inputs]
    found: Index = NONE
    for own, needed in zip(channels, below, strict=True):
        is_sum = own != max(channels) and not is_empty(needed)
        found = union(found, None if is_sum else needed if own == max(channels) else NONE, max(channels))
    return found


def _reduced(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    assert isinstance(node.op, Reduce)
    return _product(graph, node, below) if 0 in node.op.axes else below[0]


def _product(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    return below[0] if is_empty(below[0]) else None


def _conv(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    op = node.op
    assert isinstance(op, Conv2d)
    if op.groups == 1:
        return _product(graph, node, below)
    return members(owners(below[0], op.in_channels // op.groups, op.groups), op.out_channels // op.groups)


def _reshape(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    before, after = graph.shapes[node.inputs[0]][0], graph.shapes[node.name][0]
    if after % before == 0:
        return members(below[0], after // before)
    return owners(below[0], before // after, after) if before % after == 0 else _product(graph, node, below)


def _flatten_positions(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    channels = graph.shapes[node.inputs[0]][0]
    positions = graph.shapes[node.name][0] // channels
    return beside([below[0]] * positions, [channels] * positions)


def _permute(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    assert isinstance(node.op, Permute)
    return below[0] if node.op.axes[0] == 0 else _product(graph, node, below)


def _attention(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    """Return whole heads of keys and values, with all queries that share them."""
    op = node.op
    assert isinstance(op, Attention)
    if below[0] is None:
        return None
    of_queries = below[0][below[0] < op.features] // op.shared
    of_keys = (below[0][below[0] >= op.features] - op.features) // op.head_dim % op.kv_heads
    heads = union(of_queries, of_keys, op.kv_heads)
    return members(owners(heads, 1, op.kv_heads), op.shared)


def _concat(graph: Graph, node: Node, below: Sequence[Index]) -> Index:
    return beside(below, [graph.shapes[name][0] for name in node.inputs])


def _spread(node: Node, channels: Index) -> Index:
    """Return whole groups for a GroupNorm, all for a LayerNorm or a recurrent layer, and `channels` otherwise."""
    if isinstance(node.op, LayerNorm | RMSNorm | Recurrent):
        return channels if is_empty(channels) else None
    if not isinstance(node.op, GroupNorm):
        return channels
    per_group = node.op.num_channels // node.op.num_groups
    return members(owners(channels, per_group, node.op.num_groups), per_group)


_REACH: dict[type[Operation], Callable[[Graph, Node, Sequence[Index]], Index]] = {
    Conv2d: _conv,
    ConvTranspose2d: _product,
    SelfAttention: _product,
    Attention: _attention,
    Linear: _product,
    Flatten: _reshape,
    Reshape: _reshape,
    FlattenPlaces: _flatten_positions,
    Permute: _permute,
    Concat: _concat,
    Mul: _gated,
    Elementwise: _broadcast,
    AdapterSum: _broadcast,
    Reduce: _reduced,
    GaussianNoise: lambda graph, node, below: NONE,  # it depends on the shape of its input alone
}
