"""The nodes of a graph under construction while a torch module is read.

The builder finds free names, keeps the order of torch's axes for each result, and moves values where an operation reads
its axes in another order. graph_converter.py reads the calls of the module.
"""

from __future__ import annotations

import math

from edgefl.errors import GraphError
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Concat, Elementwise, InputPart, Operation, Permute, Shape, Upsample
from edgefl.torch.axis_order import Axes, Layout, Value, moved, with_channels
from edgefl.torch.shape_table import AxisConversion


class Builder:
    """A list of nodes to which the converter appends.

    nodes  nodes so far, in order
    taken  names that a further node may not have
    named  full names of parameters that do not follow from the name of their node, by the name of the node
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.named: dict[str, tuple[tuple[str, str], ...]] = {}
        self.taken: set[str] = set()
        self._turned: dict[tuple[str, Shape], Value] = {}  # results with moved axes, by name and order of the axes

    def alike(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return summands of equal shape. A value with one position, such as features, is repeated at all positions."""
        largest = max(values, key=lambda value: math.prod(value.shape))
        wanting = [value.shape == (largest.shape[0], *(1 for _ in largest.shape[1:])) for value in values]
        if largest.shape[1:] in ((), (1,), (1, 1)) or not any(wanting):
            return values
        op = Upsample((largest.shape[1], largest.shape[2]) if len(largest.shape) == 3 else (1, largest.shape[1]))

        def repeated(value: Value) -> Value:
            return self.run((op,), (value,), f"{value.name}_repeated", False, lambda rank: largest.axes)

        return tuple(repeated(value) if few else value for value, few in zip(values, wanting, strict=True))

    def evaluated(self, op: Elementwise, values: tuple[Value, ...], name: str, is_free: bool = False) -> Value:
        """Return an expression of results, which get the axes of the largest result."""
        axes = max(values, key=lambda value: math.prod(value.shape)).axes
        return self.run((op,), tuple(self.placed(value, axes) for value in values), name, is_free, lambda rank: axes)

    def joined(self, values: list[Value], dim: int, name: str) -> Value:
        """Return results one after another along torch's axis `dim`, whose values become the channels.

        Raises  GraphError if the axis is the batch, or if there is no such axis.
        """
        axes = values[0].axes
        if -len(axes) <= dim < len(axes) and axes[dim] > 1:
            axes = with_channels(axes, dim)
        if not -len(axes) <= dim < len(axes) or axes[dim] != 1:
            raise GraphError(f"dim={dim}; expected the axis of channels, {axes.index(1)}")
        placed = tuple(self.placed(value, axes) for value in values)
        return self.run((Concat(),), placed, name, False, lambda rank: axes)

    def run(
        self, ops: tuple[Operation, ...], values: tuple[Value, ...], name: str, is_free: bool, gives: Layout
    ) -> Value:
        """Append operations one after another, of which the first reads all values. Return the last result."""
        result = values[0]
        for count, op in enumerate(ops, start=1):
            is_last = count == len(ops)
            names = tuple(value.name for value in (values if count == 1 else (result,)))
            shapes = tuple(value.shape for value in (values if count == 1 else (result,)))
            added = self.add(op, names, name if is_last else f"{name}_{op.title}", is_free and is_last)
            shape = op.output(*shapes)
            result = Value(added, shape, gives(len(shape) + 1))
        return result

    def add(self, op: Operation, inputs: tuple[str, ...], name: str, is_free: bool = False) -> str:
        """Append one node, with this name or the next free name after it. Return the name that it got."""
        unique = name if is_free else _unused(name, self.taken)
        self.taken.add(unique)
        own = self.named.get(name, ()) if op.parameters() else ()
        self.nodes.append(Node(unique, op, inputs, own))
        return unique

    def read(self) -> tuple[Node, ...]:
        """Return the nodes without parts of the input of which forward reads single columns alone."""
        names = {name for node in self.nodes for name in node.inputs}
        return tuple(each for each in self.nodes if each.name in names or not isinstance(each.op, InputPart))

    def shaped(self, shaped: AxisConversion, value: Value, name: str, is_free: bool = False) -> Value:
        """Return a value in another shape, or with other axes."""
        if not shaped.ops:
            return value._replace(axes=shaped.axes)
        return self.run(shaped.ops, (self.placed(value, shaped.wants),), name, is_free, lambda rank: shaped.axes)

    def placed(self, value: Value, axes: Axes) -> Value:
        """Return the value with these axes. If its own axes differ, its values are moved by a Permute.

        Raises  GraphError if the batch would have to move, or if the number of axes differs.
        """
        if value.axes == axes:
            return value
        if value.axes.index(0) != axes.index(0) or len(value.axes) != len(axes):
            found = f"the batch is axis {value.axes.index(0)} of {len(value.axes)}"
            raise GraphError(f"{found}; expected axis {axes.index(0)} of {len(axes)}")
        order = moved(value.axes, axes)
        if (value.name, order) not in self._turned:
            name = self.add(Permute(order), (value.name,), f"{value.name}_permuted")
            turned = Value(name, tuple(value.shape[axis] for axis in order), axes)
            back = tuple(order.index(axis) for axis in range(len(order)))
            self._turned |= {(value.name, order): turned, (name, back): value}
        return self._turned[value.name, order]._replace(axes=axes)


def _unused(name: str, taken: set[str]) -> str:
    """Return `name`, or the first of name_1, name_2, ... that is free if `name` is taken."""
    count, candidate = 0, name
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
