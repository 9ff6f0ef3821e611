"""The rewriting of a graph's nodes into a schedule's nodes: a normalisation, its ReLU and a 2 x 2 max pool become one
node.

Batch norm takes ReLU6 in place of ReLU, too. The rewriting does not change what is computed. With running statistics
the bits are equal, and otherwise they differ by rounding. It saves less for the backward pass: the normalisation's
input alone. Parameters keep their names, and gradient needs refer to the graph's own nodes.

A Linear layer's bias is part of its product. Its ReLU stays a call of its own, in place. Both directions of this call
take 0.2 to 0.4 % of a step (CIFAR CNN at B = 16, PFLEGO MLP at B = 600, measured). A fused kernel would gain too
little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from edgefl.models.graph import Node
from edgefl.models.graph.operations import BatchNorm, GroupNorm, MaxPool2d, Operation, ReLU, ReLU6

HALVING = MaxPool2d((2, 2), (2, 2))


@dataclass(frozen=True)
class FusedNormReLU(Operation):
    """A node of a schedule, never of a Graph: the normalisation `norm`, its rectifier and, if is_pooled, a pool.

    is_relu6  whether the rectifier is ReLU6, which occurs after batch norm only
    """

    norm: Node
    is_pooled: bool
    is_relu6: bool = False

    def __post_init__(self) -> None:
        """Check nothing, because the graph's own nodes are checked."""


def fuse(nodes: tuple[Node, ...], apart: Collection[str] = (), outputs: Collection[str] = ()) -> tuple[Node, ...]:
    """Return the nodes with every fusable run replaced by one node, which has the name and position of the run's last
    node.

    apart    names of normalisations that stay nodes of their own
    outputs  names of results that are read at the end, and so are not only within a run
    """
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for name in node.inputs:
            readers[name].append(node)
    for name in outputs:
        readers[name] += [nodes[-1]] * 2  # so no node alone reads the result
    gone: set[str] = set()
    fused: dict[str, Node] = {}
    for node in nodes:
        relu = None if node.name in apart else _rectifier(readers, node)
        if relu is None:
            continue
        pool = _sole_reader(readers, relu, MaxPool2d)
        is_pooled = pool is not None and pool.op == HALVING
        last = pool if pool is not None and is_pooled else relu
        gone |= {node.name, relu.name}
        fused[last.name] = Node(last.name, FusedNormReLU(node, is_pooled, isinstance(relu.op, ReLU6)), node.inputs)
    return tuple(fused.get(node.name, node) for node in nodes if node.name in fused or node.name not in gone)


def _rectifier(readers: dict[str, list[Node]], node: Node) -> Node | None:
    """Return the rectifier that a normalisation's kernel includes, or None."""
    if isinstance(node.op, BatchNorm):
        return _sole_reader(readers, node, (ReLU, ReLU6))
    return _sole_reader(readers, node, ReLU) if isinstance(node.op, GroupNorm) else None


def _sole_reader(
    readers: dict[str, list[Node]], node: Node, op: type[Operation] | tuple[type[Operation], ...]
) -> Node | None:
    """Return the node that alone reads the result of `node`, if it is of this kind."""
    found = readers[node.name]
    return found[0] if len(found) == 1 and isinstance(found[0].op, op) else None
