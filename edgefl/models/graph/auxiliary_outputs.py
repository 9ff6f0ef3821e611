"""Further outputs of a graph, whose losses are added in training: auxiliary heads, early exits, other tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgefl.errors import GraphError
from edgefl.models.graph.node import Node

MOST_OUTPUTS = 64


@dataclass(frozen=True)
class AuxiliaryOutput:
    """A result of a graph whose loss is added to the loss of the graph's output.

    result  name of the result, which has a value for each class or target
    weight  positive factor of its loss
    """

    result: str
    weight: float = 1.0


def check_outputs(nodes: Sequence[Node], auxiliary: Sequence[AuxiliaryOutput]) -> None:
    """Raise GraphError unless the auxiliary outputs are different results before the last, with positive weights."""
    names = {node.name for node in nodes[:-1]}
    if len(auxiliary) > MOST_OUTPUTS:
        raise GraphError(f"{len(auxiliary)} auxiliary outputs; expected at most {MOST_OUTPUTS}")
    seen: set[str] = set()
    for each in auxiliary:
        if each.result not in names or each.result in seen:
            found = f"auxiliary output {each.result[:200]!r}"
            raise GraphError(f"{found}; expected the name of a node before the last node, once")
        if not (isinstance(each.weight, float) and 0 < each.weight < math.inf):
            raise GraphError(f"auxiliary output {each.result!r}: weight={each.weight!r}; expected a finite float > 0")
        seen.add(each.result)
