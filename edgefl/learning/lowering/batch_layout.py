"""Plans which results lie with their images side by side, as sparse convolutions compute them. Nothing is recorded.

Such a result is [B / L, C, H, W, L] in memory, L being the floats of a word. A sparse convolution reads and writes
either layout, and turns what lies apart each time that it runs: its input in the forward pass, its result's gradient
for that of its input, and both for that of its weight. What works on single cells or single channels (KEEPING) takes
either layout as it comes. So results lie side by side between sparse convolutions, and are turned where an operation
that needs torch's layout meets them, once in each direction.

Results that such operations join are one region, and have one layout: the one in which fewer floats are turned. B has
to be a multiple of L, or words would have lanes without an image.
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
SPARSE_TURNS = 3  # of an input or a result that does not lie side by side, in a training step
OTHER_TURNS = 3  # of a result between two layouts, and back of its gradient: each takes half as long again by itself


def side_by_side(nodes: tuple[Node, ...], shapes: Mapping[str, Shape], batch: int, sparse: Sparse) -> frozenset[str]:
    """The nodes whose results lie so, of those that run sparse or keep the layout of what they read."""
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
    """Images that lie side by side where any do."""
    return max((weight.lanes for weight in sparse.values()), default=1)


def _is_free(node: Node, convolutions: Collection[str]) -> bool:
    return node.name in convolutions or keeps(node)


def keeps(node: Node) -> bool:
    """Whether the node's result has the layout of what it reads."""
    return isinstance(node.op, KEEPING)


def _regions(nodes: tuple[Node, ...], free: Collection[str]) -> dict[str, str]:
    """Of each free result its region, by the name of one of it: those that nodes which keep the layout join."""
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
    """Add the floats that images side by side save a region at this node, of one example; take off what they cost."""
    size, is_sparse = math.prod(shapes[node.name]), node.name in convolutions
    if is_sparse and node.name in regions:
        saved[regions[node.name]] += SPARSE_TURNS * size
    for name in node.inputs:
        if is_sparse and name in regions:
            saved[regions[name]] += SPARSE_TURNS * math.prod(shapes[name])
        elif not is_sparse and (name in regions) != (node.name in regions):
            saved[regions.get(name) or regions[node.name]] -= OTHER_TURNS * math.prod(shapes[name])
