"""The axis of a model's outputs on which its classes lie, as far as the graph tells it."""

from __future__ import annotations

from edgefl.models.graph.graph import Graph
from edgefl.models.graph.operations import Permute


def class_axis_of(graph: Graph) -> int:
    """Return -1 if the last node moves the channels behind the places, as in a module of torch whose outputs are
    [N, tokens, classes]. Otherwise return 1, the axis of the channels in outputs [N, classes, *places].
    """
    last = graph.nodes[-1].op
    return -1 if isinstance(last, Permute) and last.axes[-1] == 0 else 1


def outputs_of_classes(graph: Graph) -> int:
    """Return the number of outputs that stand for classes."""
    return graph.output_shape[0 if class_axis_of(graph) == 1 else -1]
