"""Checks of a graph's frozen parameters, and of its constants. A constant is a frozen parameter that is never trained.

A front end makes constants of the numbers and buffers of a user's code, which torch would not train, either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from edgefl.errors import GraphError
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import BatchNorm
from edgefl.models.graph.parameter_sources import LONGEST_NAME


def check_frozen(frozen: object, constants: object, nodes: Iterable[Node], names: Collection[str]) -> None:
    """Raise GraphError unless frozen names are parameters, constants are frozen, and norms freeze both statistics.

    names  parameters of the graph
    """
    for title, found in (("frozen", frozen), ("constants", constants)):
        if not isinstance(found, frozenset) or not all(isinstance(name, str) for name in found):
            raise GraphError(f"{title}={found!r:.200}; expected a frozenset of names of parameters")
    assert isinstance(frozen, frozenset) and isinstance(constants, frozenset)
    if unknown := sorted(frozen.difference(names)):
        raise GraphError(
            f"frozen parameter {unknown[0][:LONGEST_NAME]!r} is not in the graph; expected a parameter of the graph"
        )
    if moving := sorted(constants - frozen):
        raise GraphError(
            f"constant {moving[0][:LONGEST_NAME]!r} is not frozen; expected constants among the frozen parameters"
        )
    for node in nodes:
        if isinstance(node.op, BatchNorm) and node.op.track_running_stats:
            own = {node.full_name(name) for name in ("running_mean", "running_var")}
            if len(own & frozen) == 1:
                (alone,) = own & frozen
                raise GraphError(
                    f"node {node.name!r}: only {alone} is frozen; expected both statistics to be frozen, or neither"
                )
