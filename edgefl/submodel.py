"""The smaller model made of a graph's active neurons: a real Graph, and its parameters cut from the full ones.

Used by the methods that train sub-models (Random Dropout, FjORD); FedSPU itself keeps the full model. Without a norm,
or with a BatchNorm in evaluation mode, the smaller model computes what the full one does when the outputs of the
inactive neurons are set to zero after their norm and ReLU. A GroupNorm then sees the kept channels only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgefl.errors import GraphError
from edgefl.graph import Graph, Node, Params
from edgefl.ops import BatchNorm2d, Conv2d, GroupNorm, Linear, Op
from edgefl.selection import Ids, NeuronSet
from edgefl.spec import ModelSpec


def sub_graph(graph: Graph, neurons: NeuronSet) -> Graph:
    """The graph with the active neurons of `neurons` only; names stay.

    Raises  GraphError if a GroupNorm or grouped convolution would not keep equally many channels in each group,
            SelectionError if `neurons` belongs to another model.
    """
    blocks = neurons.blocks(ModelSpec.of(graph))
    return Graph(graph.input_shape, tuple(_smaller(node, blocks) for node in graph.nodes))


def sub_params(graph: Graph, params: Mapping[str, np.ndarray], neurons: NeuronSet) -> Params:
    """Copies of the active blocks of `params`: the parameters of `sub_graph(graph, neurons)`.

    Raises  GraphError if `params` does not belong to `graph`, SelectionError if `neurons` does not.
    """
    graph.check(params)
    blocks = neurons.blocks(ModelSpec.of(graph))
    return {name: _cut(params[name], rows, cols) for name, (rows, cols) in blocks.items()}


def _cut(value: np.ndarray, rows: Ids | None, cols: Ids | None) -> np.ndarray:
    block = value if rows is None else value[rows]
    block = block if cols is None else block[:, cols]
    return np.array(block, order="C")


def _smaller(node: Node, blocks: Mapping[str, tuple[Ids | None, Ids | None]]) -> Node:
    rows, cols = blocks.get(f"{node.name}.weight", (None, None))
    if rows is None and cols is None:
        return node
    return Node(node.name, _resized(node, rows, cols), node.inputs)


def _resized(node: Node, rows: Ids | None, cols: Ids | None) -> Op:
    """The operation of `node` with the kept outputs (rows) and inputs (cols); None keeps all."""
    op = node.op
    if isinstance(op, Linear):
        return replace(op, in_features=_kept(cols, op.in_features), out_features=_kept(rows, op.out_features))
    if isinstance(op, Conv2d) and op.is_depthwise:
        kept = _kept(rows, op.out_channels)
        channels = kept // (op.out_channels // op.in_channels)
        return replace(op, in_channels=channels, out_channels=kept, groups=channels)
    if isinstance(op, Conv2d):
        _check_groups(node, rows, op.out_channels, op.groups)
        return replace(op, in_channels=_kept(cols, op.in_channels), out_channels=_kept(rows, op.out_channels))
    if isinstance(op, BatchNorm2d):
        return replace(op, num_features=_kept(rows, op.num_features))
    if isinstance(op, GroupNorm):
        _check_groups(node, rows, op.num_channels, op.num_groups)
        return replace(op, num_channels=_kept(rows, op.num_channels))
    return op


def _kept(ids: Ids | None, size: int) -> int:
    return size if ids is None else len(ids)


def _check_groups(node: Node, rows: Ids | None, channels: int, groups: int) -> None:
    """Raise GraphError unless the kept channels are equally many in every run of channels // groups."""
    if rows is None:
        return
    counts = np.bincount(rows // (channels // groups), minlength=groups)
    if (counts != counts[0]).any():
        raise GraphError(
            f"node {node.name!r}: a sub-model would keep {counts.tolist()} channels of the {groups} groups of "
            f"{node.op.title}; expected equally many in each"
        )
