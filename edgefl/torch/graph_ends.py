"""The ends of a graph under construction: the output, which is the last node, and auxiliary outputs."""

from __future__ import annotations

from typing import Any

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT
from edgefl.models.graph.auxiliary_outputs import AuxiliaryOutput
from edgefl.models.graph.operations import Flatten
from edgefl.torch.axis_order import Value, first
from edgefl.torch.graph_builder import Builder


def end_alone(build: Builder, result: Value | None, output: Any) -> None:
    """Raise GraphError unless a result, which the module returns as `output`, is that of the last node."""
    if result is None or not build.nodes or result.name != build.nodes[-1].name:
        raise GraphError(f"the module returns {output}; expected the result of its last operation")
    if result.axes != first(len(result.axes)):
        build.placed(result, first(len(result.axes)))


def ends(build: Builder, results: list[Value | None], weights: tuple[float, ...]) -> tuple[AuxiliaryOutput, ...]:
    """Make the first result the last node of the graph, and return the others as auxiliary outputs.

    weights  weight of the loss of each result but the first
    """
    placed = [_end(build, result) for result in results]
    names = [value.name for value in placed]
    if INPUT in names or len(set(names)) < len(names):
        raise GraphError(f"the module returns {', '.join(names)}; expected results of operations, each once")
    for value in placed[1:]:
        if len(value.shape) != 1:
            raise GraphError(
                f"a further output of shape {value.shape}; expected one value for each class or target: leave it out "
                "of `outputs`"
            )
    main = next(node for node in build.nodes if node.name == names[0])
    if any(main.name in node.inputs for node in build.nodes):
        if len(placed[0].shape) != 1:
            raise GraphError(
                f"other outputs follow from output {main.name!r} of shape {placed[0].shape}; expected a main output "
                "at the module's end: from_torch(..., output=...)"
            )
        build.add(Flatten(), (main.name,), "output")
    else:
        build.nodes.remove(main)
        build.nodes.append(main)
    return tuple(AuxiliaryOutput(name, weight) for name, weight in zip(names[1:], weights, strict=True))


def _end(build: Builder, result: Value | None) -> Value:
    if result is None:
        raise GraphError("the module returns a constant as one of its outputs; expected results of operations")
    return build.placed(result, first(len(result.axes)))
