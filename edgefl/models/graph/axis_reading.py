"""The order in which a graph reads the two axes of a sequence: channels and then steps, or steps and then channels.

A graph that was converted from a torch module keeps the order of axes of the module. A Conv1d reads [channels, steps].
An LSTM with batch_first reads [steps, channels], which its graph turns by a Permute at the input. The caller says the
order of axes in a file or an array, because this module does not know it.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from edgefl.models.graph.graph import INPUT, Graph
from edgefl.models.graph.operations import (
    AdaptiveAvgPool1d,
    Attention,
    Conv1d,
    Flatten,
    FlattenPlaces,
    GlobalAvgPool,
    Permute,
    Pool1d,
    Recurrent,
    Reshape,
    Rotary,
    SelfAttention,
    Shape,
)

NCL, NLC = "NCL", "NLC"
OTHER = {NCL: NLC, NLC: NCL}
ALONG_STEPS = (Conv1d, Pool1d, AdaptiveAvgPool1d, GlobalAvgPool, Recurrent, SelfAttention, Attention, Rotary)
"""Operations that know which axis holds the steps."""
REARRANGING = (Flatten, FlattenPlaces, Reshape)
"""Operations after which the axes of the input cannot be told."""


def read_order(graph: Graph) -> str:
    """Return NCL or NLC, as the first operation along steps shows it, or an empty text without such an operation."""
    turned: dict[str, bool | None] = {INPUT: False if len(graph.input_shape) == 2 else None}
    for node in graph.nodes:
        before = turned[node.inputs[0]]
        if isinstance(node.op, ALONG_STEPS) and before is not None:
            return NLC if before else NCL
        if isinstance(node.op, REARRANGING):
            before = None
        is_turned = before is not None and isinstance(node.op, Permute) and node.op.axes == (1, 0)
        turned[node.name] = not before if is_turned else before
    return ""


def fitting_order(graph: Graph, shape: Shape) -> str:
    """Return the order of axes in which a graph takes samples: NCL as they are, NLC with their two axes exchanged.

    shape   shape of a sample, (channels, steps)
    Returns an empty text if the samples do not fit, or would fit only against the order in which the graph reads.
    """
    order, exchanged = read_order(graph), shape[::-1]
    if order == NLC and exchanged == graph.input_shape:
        return NLC
    if shape == graph.input_shape:
        return NCL
    return NLC if exchanged == graph.input_shape and order != NCL else ""


def fitting_axes(graph: Graph, shape: Shape, axes: str) -> str:
    """Return the setting `axes` with which samples would fit a graph that does not take them as they are.

    shape   shape of a sample as it was read: (channels, steps), or (1, rows, columns) if no axes were given
    axes    the present setting
    Returns an empty text if no setting would help.
    """
    if len(graph.input_shape) != 2 or shape[-2:] not in (graph.input_shape, graph.input_shape[::-1]):
        return ""
    if len(shape) == 2:
        return OTHER.get(axes, "")
    return NCL if read_order(graph) == NLC else NLC


def arranged(x: NDArray[Any], graph: Graph, axes: str) -> NDArray[Any]:
    """Return the samples with their axes in the order in which a graph takes them.

    x      samples [N, ...]
    axes   order of the axes of x, such as NLC or NHWC. An empty text means that it is not known, and x stays as it is
    Returns a view of x, or x itself where x fits as it is or does not fit in any order.
    """
    if axes in OTHER and x.ndim == 3 and len(graph.input_shape) == 2:
        example = x.shape[1:]
        order = fitting_order(graph, example if axes == NCL else example[::-1])
        return x.transpose(0, 2, 1) if order == OTHER[axes] else x
    if axes == "NHWC" and x.ndim == 4 and x.shape[1:] != graph.input_shape:
        return x.transpose(0, 3, 1, 2)
    return x
