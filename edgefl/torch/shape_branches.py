"""Branches of a forward on the shape of its input, such as `if x.dim() == 2` or `assert x.shape[2] == 28`.

The trace takes the branch that the shape of the data takes. Branches on values, on the batch size or on the shapes of
results are refused.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Shape
from edgefl.torch.axis_order import BATCH

RANKS = ("dim", "ndimension", "ndim")
COMPUTED = (
    operator.getitem, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_,
    operator.or_, operator.not_, operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
)  # fmt: skip


def decided(condition: fx.Node, shape: Shape) -> bool:
    """Return whether the condition of a branch holds.

    shape   shape of one input, without the batch
    Raises  GraphError for a condition that the shape of one input does not decide.
    """
    found = _value(condition, condition, shape)
    if _has_batch(found):
        raise _undecided(condition)
    return bool(found)


def _value(node: Any, condition: fx.Node, shape: Shape) -> Any:
    """Return the value of a traced node for inputs of a given shape."""
    if not isinstance(node, fx.Node):
        return node
    source, *rest = [*node.args, None]
    if isinstance(source, fx.Node) and source.op == "placeholder":
        if node.target in RANKS or (node.target is getattr and rest[0] in RANKS):
            return 1 + len(shape)
        if node.target == "size" or (node.target is getattr and rest[0] == "shape"):
            at = node.kwargs.get("dim", rest[0] if node.target == "size" else None)
            return (BATCH, *shape) if at is None else (BATCH, *shape)[at]  # type: ignore[index]
    elif node.target in COMPUTED:
        values = [_value(each, condition, shape) for each in node.args]
        if node.target is operator.getitem or not any(map(_has_batch, values)):
            return node.target(*values)
    raise _undecided(condition)


def _has_batch(value: Any) -> bool:
    return value == BATCH or (isinstance(value, tuple) and BATCH in value)


def _undecided(condition: fx.Node) -> GraphError:
    name = condition.target if isinstance(condition.target, str) else getattr(condition.target, "__name__", "a value")
    return GraphError(
        f"forward branches on {name}({', '.join(map(str, condition.args))}); expected branches on the shape of an "
        "input alone, without the batch size: the graph goes one way for all batches"
    )


def without_branches(traced: fx.Graph, shape: Shape) -> fx.Graph:
    """Return the graph without the nodes that only branches and torch._assert read.

    Raises  GraphError if torch._assert does not hold for such an input.
    """
    for node in reversed(list(traced.nodes)):
        if node.target is torch._assert:
            condition, *said = node.args
            if not (decided(condition, shape) if isinstance(condition, fx.Node) else condition):
                raise GraphError(f"torch._assert fails for inputs of shape {shape}: {', '.join(map(str, said))}")
            traced.erase_node(node)
        elif not node.users and _is_of_shapes(node):
            traced.erase_node(node)
    return traced


def _is_of_shapes(node: fx.Node) -> bool:
    """Return whether the call reads a shape, or computes with shapes."""
    if node.target in ("size", *RANKS) or (node.target is getattr and node.args[1] in ("shape", *RANKS)):
        return True
    return node.target in COMPUTED and bool(node.all_input_nodes) and all(map(_is_of_shapes, node.all_input_nodes))
