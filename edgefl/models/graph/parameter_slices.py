"""The class SlicedParameter: the rows and columns of one parameter that training moves, where it does not move all.

A slice is a part of a Graph, as frozen parameters are. All other coordinates of the parameter keep their bits, and no
message of a round carries them. Slices for one call of Learner.fit are in neurons/trainable_slice.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from edgefl.errors import GraphError
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import BatchNorm, ParamInfo, Shape

Range = tuple[int, int]
"""The first index along an axis, and the index after the last."""


class SlicedParameter(NamedTuple):
    """The trained rows (axis 0) and columns (axis 1) of the parameter `name`. A whole axis is None.

    Example  SlicedParameter("fc.weight", None, (0, 32)) is fc.weight[:, 0:32]
    """

    name: str
    rows: Range | None = None
    cols: Range | None = None

    @property
    def text(self) -> str:
        """Return the slice as a pattern of --train."""
        axes = [":" if axis is None else f"{axis[0]}:{axis[1]}" for axis in (self.rows, self.cols)]
        return f"{self.name}[{', '.join(axes if self.cols else axes[:1])}]"

    def count(self, shape: Shape) -> int:
        """Return the number of trained coordinates of a parameter of this shape."""
        found = 1
        for axis, size in enumerate(shape):
            part = (self.rows, self.cols)[axis] if axis < 2 else None
            found *= size if part is None else part[1] - part[0]
        return found


def check_slices(slices: object, nodes: Iterable[Node], infos: Mapping[str, ParamInfo]) -> None:
    """Raise GraphError unless each slice is a part of another learned parameter, and lies within its shape.

    slices  slices in the order of their names
    infos   parameters of the graph
    """
    if not isinstance(slices, tuple) or not all(isinstance(each, SlicedParameter) for each in slices):
        raise GraphError(f"slices={slices!r:.200}; expected a tuple of SlicedParameter")
    names = [each.name for each in slices]
    if names != sorted(set(names)):
        raise GraphError(f"slices of {', '.join(names)[:200]}; expected each parameter once, in alphabetical order")
    for each in slices:
        _check(each, infos)
    for node in nodes:
        if isinstance(node.op, BatchNorm):
            _check_norm(node, set(names), infos)


def _check(part: SlicedParameter, infos: Mapping[str, ParamInfo]) -> None:
    info = infos.get(part.name)
    if info is None or info.kind != "learn":
        what = "not in the graph" if info is None else "frozen" if info.kind == "frozen" else "a running statistic"
        raise GraphError(f"slice {part.text}: the parameter is {what}; expected a parameter that is learned")
    if part.rows is None and part.cols is None:
        raise GraphError(f"slice {part.text} without rows and columns; expected a part of the parameter")
    for axis, (what, given) in enumerate((("rows", part.rows), ("columns", part.cols))):
        if given is None:
            continue
        if axis >= len(info.shape):
            raise GraphError(f"slice {part.text}: {part.name} has the shape {info.shape}; expected rows alone")
        size = info.shape[axis]
        if not 0 <= given[0] < given[1] <= size or given == (0, size):
            raise GraphError(
                f"slice {part.text}: {what} {given[0]}:{given[1]} of the shape {info.shape}; expected some of "
                f"0:{size}, and at least one"
            )


def _check_norm(node: Node, sliced: set[str], infos: Mapping[str, ParamInfo]) -> None:
    """Raise GraphError if a norm is trained in part while its running statistics follow the batches as a whole."""
    own = sorted(sliced & {node.full_name(name) for name in node.op.parameters()})
    moving = node.full_name("running_mean")
    if own and moving in infos and infos[moving].kind == "stat":
        raise GraphError(
            f"slice of {own[0]}, while {moving} follows the batches; expected the statistics to be kept, as with "
            "--train=...,-*.running_*"
        )
