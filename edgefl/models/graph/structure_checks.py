"""Checks of a graph's structure: names of nodes, their order, and that every result is used.

Shapes are checked where operations compute them.
"""

from __future__ import annotations

import re

from edgefl.errors import GraphError
from edgefl.models.graph.auxiliary_outputs import AuxiliaryOutput
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import LARGEST_SETTING, Embedding, InputPart
from edgefl.models.graph.parameter_sources import LONGEST_NAME, PARAMETER_NAME

INPUT = "input"
NODE_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


def check_structure(input_shape: object, nodes: tuple[Node, ...], auxiliary: tuple[AuxiliaryOutput, ...]) -> None:
    """Raise GraphError unless names, order and use of results are as they should be. Shapes are not checked here."""
    shape = input_shape
    if not isinstance(shape, tuple) or len(shape) not in (1, 2, 3) or not all(_is_extent(size) for size in shape):
        raise GraphError(f"input_shape={shape!r}; expected a tuple of 1 to 3 positive integers")
    if not nodes:
        raise GraphError("graph with 0 nodes; expected at least one")
    names = {node.name for node in nodes}
    known, unused, of_input = {INPUT}, {INPUT}, {INPUT}
    for node in nodes:
        _check_node(node, known, names)
        _check_source(node, of_input)
        known.add(node.name)
        unused = (unused - set(node.inputs)) | {node.name}
    if idle := unused - {nodes[-1].name} - {each.result for each in auxiliary}:
        raise GraphError(f"results {sorted(idle)} are never used; expected only the last node {nodes[-1].name!r}")


def _check_node(node: Node, known: set[str], names: set[str]) -> None:
    if len(node.name) > LONGEST_NAME or not NODE_NAME.fullmatch(node.name):
        raise GraphError(f"node {node.name[:LONGEST_NAME]!r}: bad name; expected letters, digits, _ and inner dots")
    _check_named(node)
    if node.name in known:
        raise GraphError(f"node {node.name!r}: the name is taken; expected different names, and not {INPUT!r}")
    least = node.op.arity or 2
    if len(node.inputs) < least or (node.op.arity and len(node.inputs) > least):
        expected = node.op.arity or "two or more"
        raise GraphError(f"node {node.name!r}: inputs {node.inputs}; {node.op.title} expects {expected}")
    for name in node.inputs:
        if name not in known:
            why = "comes later; expected topological order" if name in names else "is unknown; expected a result"
            raise GraphError(f"node {node.name!r}: input {name!r} {why}")
    if len(set(node.inputs)) < len(node.inputs):
        raise GraphError(f"node {node.name!r}: inputs {node.inputs}; expected two different results")


def _check_source(node: Node, of_input: set[str]) -> None:
    """Raise GraphError unless ids come from the input or from a part of it, and a part comes from the input.

    of_input  names of the input and of its parts so far
    """
    if isinstance(node.op, Embedding) and node.inputs[0] not in of_input:
        raise GraphError(
            f"node {node.name!r}: ids from {node.inputs[0]!r}; expected ids from {INPUT!r} or a part of it"
        )
    if isinstance(node.op, InputPart):
        if node.inputs != (INPUT,):
            raise GraphError(f"node {node.name!r}: a part of {node.inputs[0]!r}; expected a part of {INPUT!r}")
        of_input.add(node.name)


def _check_named(node: Node) -> None:
    """Raise GraphError unless the pairs of `named` give each parameter of the operation at most one usable name."""
    parts = [part for part, _ in node.named]
    if parts != sorted(set(parts)) or not set(parts) <= node.op.parameters().keys():
        expected = f"some of {sorted(node.op.parameters())}, in this order"
        raise GraphError(f"node {node.name!r}: names for the parameters {parts}; expected {expected}")
    for _, full in node.named:
        if len(full) > LONGEST_NAME or not PARAMETER_NAME.fullmatch(full):
            found = f"node {node.name!r}: parameter name {full[:LONGEST_NAME]!r}"
            raise GraphError(f"{found}; expected letters, digits, _, - and inner dots")


def _is_extent(size: object) -> bool:
    return type(size) is int and 1 <= size <= LARGEST_SETTING
