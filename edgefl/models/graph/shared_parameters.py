"""Parameters that several nodes of a graph use, such as tied weights: which nodes use them, and which uses fit.

No values are read here. The gradient of a shared parameter is the sum over its uses (learning/lowering).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from edgefl.errors import GraphError
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import ParamInfo, Shape, WithParameter


class ParameterUse(NamedTuple):
    """One use of a parameter: the node, and the last part of the parameter's name at this node ("weight")."""

    node: Node
    part: str

    @property
    def info(self) -> ParamInfo:
        return self.node.op.parameters()[self.part]


def parameter_uses(nodes: Sequence[Node]) -> dict[str, list[ParameterUse]]:
    """Return the uses of every parameter, by full name, in node order."""
    uses: dict[str, list[ParameterUse]] = {}
    for node in nodes:
        for part in node.op.parameters():
            uses.setdefault(node.full_name(part), []).append(ParameterUse(node, part))
    return uses


def check_uses(nodes: Sequence[Node], frozen: Collection[str]) -> None:
    """Raise GraphError unless all uses of each parameter have one shape and one kind.

    Running statistics may have several uses only if they are frozen. Trailing extents of 1 do not count, because a
    Linear layer at each position is a convolution with windows of one cell (planar.py).
    """
    for name, (first, *others) in parameter_uses(nodes).items():
        for other in others:
            both = f"parameter {name!r} in the nodes {first.node.name!r} and {other.node.name!r}"
            if first.node is other.node:
                raise GraphError(
                    f"node {first.node.name!r}: {first.part!r} and {other.part!r} both have the name {name!r}; "
                    "expected different names"
                )
            if _core(first.info.shape) != _core(other.info.shape) or _ones(first) != _ones(other):
                shapes = f"{_torch_shape(first)} and {_torch_shape(other)}"
                raise GraphError(f"{both}: shapes {shapes}; expected one shape, or two parameters with different names")
            if "stat" in (first.info.kind, other.info.kind) and name not in frozen:
                raise GraphError(
                    f"{both}: a running statistic of two uses; expected a BatchNorm of its own for each use, or frozen "
                    "statistics"
                )


def other_names(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the names that shared parameters would have if each use had its own, with their full names.

    A torch module whose two layers have one weight lists it in its state_dict under the names of both layers.
    """
    uses = parameter_uses(nodes).items()
    own = {f"{use.node.name}.{use.part}": full for full, each in uses if len(each) > 1 for use in each}
    return {name: full for name, full in own.items() if name != full}


def _core(shape: Shape) -> Shape:
    """Return a shape without the extents of 1 at its end."""
    last = max((i for i, extent in enumerate(shape, start=1) if extent > 1), default=0)
    return shape[:last]


def _ones(use: ParameterUse) -> int:
    return use.node.op.ones if isinstance(use.node.op, WithParameter) else 0


def _torch_shape(use: ParameterUse) -> Shape:
    return (*(1,) * _ones(use), *use.info.shape)
