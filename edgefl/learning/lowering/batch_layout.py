"""The choice of the results that lie with their images side by side, as sparse convolutions compute them. Nothing is
recorded.

Such a result is [B / L, C, H, W, L] in memory, where L is the number of floats in a SIMD vector. A sparse convolution
reads and writes both layouts. It turns arrays of the other layout each time that it runs. In the forward pass it turns
its input. For the gradient of its input it turns the gradient of its result, and for the gradient of its weight it
turns both arrays. Operations on single cells or single channels (KEEPING) take either layout. So results lie side by
side between sparse convolutions. They are turned where an operation needs torch's layout, once in each direction.

A region is a set of results that such operations join. It has one layout: the layout in which fewer floats are turned.
B has to be a multiple of L. Otherwise vectors would have lanes without an image.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping

from edgefl.learning.lowering.fusion import FusedNormReLU
from edgefl.learning.lowering.sparse_weight import Sparse
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Add, BatchNorm2d, GroupNorm, MaxPool2d, Rectifier, Shape

KEEPING = (Add, BatchNorm2d, GroupNorm, MaxPool2d, FusedNormReLU, Rectifier)
SPARSE_TURNS = 3  # times that an input or a result in torch's layout is turned in a training step
OTHER_TURNS = 3  # cost of turning a result and its gradient between layouts: a turn by itself takes 1.5 times as long


def side_by_side(nodes: tuple[Node, ...], shapes: Mapping[str, Shape], batch: int, sparse: Sparse) -> frozenset[str]:
    """Return the names of the nodes whose results lie side by side.

    Candidates are nodes that run sparse, and nodes that keep the layout of what they read.
    """
    lanes = lanes_of(sparse)
    if lanes == 1 or batch % lanes:
        return frozenset()
    convolutions = {name.removesuffix(".weight") for name, weight in sparse.items() if weight.op == "conv2d"}
    free = {node.name for node in nodes[:-1] if len(shapes[node.name]) == 3 and _is_free(node, convolutions)}
    regions = _regions(nodes, free)
    saved: Counter[str] = Counter()
    for node in nodes:
        _count(node, shapes, convolutions, regions, saved)
    return frozenset(name for name in free if saved[regions[name]] > 0)


def lanes_of(sparse: Sparse) -> int:
    """Return the number of images that lie side by side, where any do."""
    return max((weight.lanes for weight in sparse.values()), default=1)


def _is_free(node: Node, convolutions: Collection[str]) -> bool:
    return node.name in convolutions or keeps(node)


def keeps(node: Node) -> bool:
    """Return whether the node's result has the layout of what it reads."""
    return isinstance(node.op, KEEPING)


def _regions(nodes: tuple[Node, ...], free: Collection[str]) -> dict[str, str]:
    """Return for each free result the name of its region, which is the name of one of the region's results.

    Nodes that keep the layout join their inputs and their result into one region.
    """
    regions = {name: name for name in free}
    for node in nodes:
        if not keeps(node) or node.name not in free:
            continue
        joined = {regions[name] for name in (*node.inputs, node.name) if name in free}
        regions = {name: min(joined) if region in joined else region for name, region in regions.items()}
    return regions


def _count(
    node: Node,
    shapes: Mapping[str, Shape],
    convolutions: Collection[str],
    regions: Mapping[str, str],
    saved: Counter[str],
) -> None:
    """Add the floats per example that images side by side save a region at this node, less the floats that
    they cost.
    """
    size, is_sparse = math.prod(shapes[node.name]), node.name in convolutions
    if is_sparse and node.name in regions:
        saved[regions[node.name]] += SPARSE_TURNS * size
    for name in node.inputs:
        if is_sparse and name in regions:
            saved[regions[name]] += SPARSE_TURNS * math.prod(shapes[name])
        elif not is_sparse and (name in regions) != (node.name in regions):
            saved[regions.get(name) or regions[node.name]] -= OTHER_TURNS * math.prod(shapes[name])
