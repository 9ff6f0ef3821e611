"""Which channels of each result need a gradient. Pure: graph and blocks in, channel sets out.

A result needs its gradient where its producer computes something with it: the gradients of the producer's own active
parameters, and what the producer's inputs need in turn. So the sets grow from the input of the graph to its output:

* a convolution or Linear with anything trained below it needs all its output channels (a grouped one: all channels of
  the groups that lead to a needed input); with nothing trained below, its active ones only;
* a GroupNorm needs whole groups; a BatchNorm, ReLU, pooling and Add the same channels as below; Flatten their features.

This is the exact gradient (FedSPU Eq. 4): the signal passes through frozen neurons. With delta="cut" the gradient at
the output of every convolution and Linear is taken as zero on frozen neurons, so those need active channels only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgefl.graph import Graph, Node
from edgefl.graph.operations import Conv2d, Flatten, GroupNorm, Linear, Operation
from edgefl.learners.base import Delta
from edgefl.learners.lowering.channels import NONE, is_empty, members, owners, union
from edgefl.learners.lowering.schedule import Index

RowsCols = tuple[Index, Index]


def own_rows(node: Node, blocks: Mapping[str, RowsCols]) -> Index:
    """Output channels of a node whose parameters are trained; empty for a node without parameters."""
    axes = blocks.get(f"{node.name}.weight")
    return NONE if axes is None else axes[0]


def gradient_needs(graph: Graph, blocks: Mapping[str, RowsCols], delta: Delta) -> dict[str, Index]:
    """Result -> channels whose gradient is needed; results that need none are absent."""
    needs: dict[str, Index] = {}
    for node in graph.nodes:
        size = graph.shapes[node.name][0]
        below: Index = NONE
        for name in node.inputs:
            below = union(below, needs.get(name, NONE), graph.shapes[name][0])
        rows = own_rows(node, blocks)
        if delta == "cut" and isinstance(node.op, Conv2d | Linear):
            above = rows
        else:
            above = _spread(graph, node, union(rows, _REACH.get(type(node.op), _same)(graph, node, below), size))
        if not is_empty(above):
            needs[node.name] = above
    return needs


def _same(graph: Graph, node: Node, below: Index) -> Index:
    return below


def _linear(graph: Graph, node: Node, below: Index) -> Index:
    return below if is_empty(below) else None


def _conv(graph: Graph, node: Node, below: Index) -> Index:
    op = node.op
    assert isinstance(op, Conv2d)
    if op.groups == 1:
        return _linear(graph, node, below)
    return members(owners(below, op.in_channels // op.groups, op.groups), op.out_channels // op.groups)


def _flatten(graph: Graph, node: Node, below: Index) -> Index:
    return members(below, graph.shapes[node.name][0] // graph.shapes[node.inputs[0]][0])


def _spread(graph: Graph, node: Node, channels: Index) -> Index:
    """Whole groups for a GroupNorm; `channels` for everything else."""
    if not isinstance(node.op, GroupNorm):
        return channels
    per_group = node.op.num_channels // node.op.num_groups
    return members(owners(channels, per_group, node.op.num_groups), per_group)


_REACH: dict[type[Operation], Callable[[Graph, Node, Index], Index]] = {
    Conv2d: _conv,
    Linear: _linear,
    Flatten: _flatten,
}
