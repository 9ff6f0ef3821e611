"""Operations of an exported graph that only move values, followed by numbers in place of the values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, fx

from edgefl.torch.code_lines import packet

VIEWS = ("view", "_unsafe_view", "reshape")
MOVING = frozenset(
    ("view", "_unsafe_view", "reshape", "permute", "transpose", "contiguous", "clone", "unflatten", "flatten", "select",
     "slice", "unbind", "chunk", "split", "split_with_sizes", "getitem", "unsqueeze", "squeeze", "alias")
)  # fmt: skip
"""The names of operations that change no value."""


class SizedGraph(Protocol):
    """The lifting of an exported graph, whose sizes are known."""

    def concrete(self, arguments: Any) -> Any:
        """Return arguments with numbers in place of sizes."""

    def extents(self, node: fx.Node) -> tuple[int, ...]:
        """Return the sizes of a node, with the example's batch size."""

    def lifted(self, arguments: Any) -> Any:
        """Return arguments with calls in place of the exported graph's nodes."""

    def call(self, function: Callable[..., Any], *args: Any, **settings: Any) -> fx.Node:
        """Append the call of a function with lifted arguments."""


def numbered(sizes: tuple[int, ...]) -> Tensor:
    """Return the numbers 0, 1, 2, ... in a tensor of these sizes."""
    return torch.arange(math.prod(sizes)).view(sizes)


def moved(graph: SizedGraph, node: fx.Node, start: fx.Node, numbers: Tensor) -> Any:
    """Return where `node` has the numbers that `start` has in their order. Both are joined by operations of MOVING."""
    if node is start:
        return numbers
    source = node.args[0]
    assert isinstance(source, fx.Node) and callable(node.target)
    args, settings = graph.concrete((node.args[1:], node.kwargs))
    if packet(node) == "expand":  # an axis of -1 keeps its extent
        return moved(graph, source, start, numbers).expand(*args)
    if packet(node) in VIEWS:  # forward's own tensor may lie in an order of memory that the numbers do not have
        return moved(graph, source, start, numbers).reshape(*args, **settings)
    return node.target(moved(graph, source, start, numbers), *args, **settings)
