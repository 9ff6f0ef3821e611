"""The class Node: one operation of a graph, with the names of its result, its inputs and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Operation, Shape


@dataclass(frozen=True)
class Node:
    """One operation of a graph, with the name of its result and the names of the results that it reads.

    named  Full names of parameters that do not follow from the node's name, as pairs of the last part and the full
           name: (("weight", "blocks.0.kernel"),). Nodes that give one full name share the parameter.
    """

    name: str
    op: Operation
    inputs: tuple[str, ...]
    named: tuple[tuple[str, str], ...] = ()

    def full_name(self, part: str) -> str:
        """Return the full name of a parameter from the last part of its name. For "" it is the name of the node, unless
        `named` says otherwise.
        """
        for own, full in self.named:
            if own == part:
                return full
        return f"{self.name}.{part}" if part else self.name

    def output(self, shapes: Mapping[str, Shape]) -> Shape:
        """Return the shape of the result, from the shapes of earlier results by name.

        Raises  GraphError with the node's name if the shapes do not fit.
        """
        try:
            return self.op.output(*(shapes[name] for name in self.inputs))
        except GraphError as error:
            raise GraphError(f"node {self.name!r}: {error}") from None
