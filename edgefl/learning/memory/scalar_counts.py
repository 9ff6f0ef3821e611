"""The counts of the memory accounts: scalars of parameters, of results and of values that an exact backward pass reads.

A set of active neurons is a NeuronSet, or None for all.

Source  ALGORITHMS 9, the table of layers
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from edgefl.learning.lowering.active_ids import saved_channels, trained_blocks
from edgefl.learning.lowering.channel_sets import count
from edgefl.learning.lowering.gradient_needs import PRODUCTS, gradient_needs
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import (
    VIEWS,
    Attention,
    BatchNorm,
    Elementwise,
    GroupNorm,
    LayerNorm,
    MaxPool2d,
    Mul,
    MulParameter,
    Operation,
    ParamInfo,
    PReLU,
    Rectifier,
    Recurrent,
    Reduce,
    RMSNorm,
    SelfAttention,
    Shape,
    Smooth,
)
from edgefl.models.graph.planar import planar
from edgefl.models.neurons import density as density_of
from edgefl.models.neurons.model_spec import ModelSpec, result_axes
from edgefl.models.neurons.neuron_set import NeuronSet

CURVES = (Smooth, PReLU, MulParameter, Attention, Reduce, Mul, Elementwise)
"""Operations whose backward pass reads values again, which `saved_bits` counts as curves."""


def scalars(params: Iterable[ParamInfo], stats: bool = False) -> int:
    """Return the number of scalars that are held, trained or frozen. `stats` adds the running statistics that move."""
    return sum(math.prod(param.shape) for param in params if stats or param.kind != "stat")


def learned_scalars(params: Iterable[ParamInfo]) -> int:
    """Return the number of scalars that have a gradient where all neurons are trained."""
    return sum(math.prod(param.shape) for param in params if param.kind == "learn")


def kept_scalars(graph: Graph, density: float = 1.0) -> int:
    """Return the number of scalars that are held where a mask keeps the share `density` of the trained weights."""
    return scalars(graph.parameters().values()) - _left_out(graph, density)


def _left_out(graph: Graph, density: float) -> int:
    """Return the number of coordinates of the trained weights that a mask leaves out."""
    if density == 1:
        return 0
    shapes = density_of.weights(ModelSpec.of(graph))
    return sum(map(math.prod, shapes.values())) - sum(density_of.counts(shapes, density, "erk").values())


def trained_scalars(graph: Graph, neurons: NeuronSet | None, density: float = 1.0) -> int:
    """Return the number of scalars that have a gradient, P_act."""
    if neurons is not None:
        return neurons.count(ModelSpec.of(graph))
    infos = graph.parameters()
    outside = sum(math.prod(infos[each.name].shape) - each.count(infos[each.name].shape) for each in graph.slices)
    return learned_scalars(infos.values()) - outside - _left_out(graph, density)


def _results_with_gradient(graph: Graph, neurons: NeuronSet | None) -> Collection[str]:
    """Return the results that the backward pass reaches. If nothing is frozen, all results count as reached."""
    if not graph.frozen:
        return graph.shapes.keys()
    return gradient_needs(graph, trained_blocks(ModelSpec.of(graph), neurons), "exact").keys()


def output_scalars(graph: Graph, neurons: NeuronSet | None) -> int:
    """Return the number of scalars that all modules output for one example: A_act of active neurons, or A_all.

    Views are not counted, nor anything below the lowest layer that is trained.
    """
    axes, total, reached = result_axes(graph), 0, _results_with_gradient(graph, neurons)
    for node in graph.nodes:
        if isinstance(node.op, VIEWS) or node.name not in reached:
            continue
        axis, (channels, *inner) = axes[node.name], graph.shapes[node.name]
        if neurons is not None and axis is not None:
            channels = count(neurons.ids(axis, channels), channels)
        total += channels * math.prod(inner)
    return total


def saved_bits(graph: Graph, neurons: NeuronSet | None) -> dict[str, int]:
    """Return the bits that an exact backward pass reads of one example's forward pass, by their kind.

    inputs   active channels of the inputs of convolutions and Linear layers. An input of several layers is counted once
    xhat     normalised values of all channels, because the gradient passes through frozen channels. The few statistics
             of the norms are left out, as in ALGORITHMS 9.3
    signs    one bit per value of a ReLU or other rectifier
    winners  the winning cell of each max-pool window
    curves   values that smooth activations, PReLUs and products of results read again. Gates and states of recurrent
             layers. Queries, keys, values and shares of attention
    """
    blocks, inputs, graph = trained_blocks(ModelSpec.of(graph), neurons), {}, planar(graph)
    reached = _results_with_gradient(graph, neurons)
    bits = {"inputs": 0, "xhat": 0, "signs": 0, "winners": 0, "curves": 0}
    for node in graph.nodes:
        results = math.prod(graph.shapes[node.name])
        if isinstance(node.op, PRODUCTS):
            channels, *inner = graph.shapes[node.inputs[0]]
            inputs[_source(graph, node)] = count(saved_channels(node, blocks), channels) * math.prod(inner)
            if node.name in reached:
                bits["curves"] += 32 * _of_sequences(node.op, graph.shapes[node.name])
        elif node.name not in reached or (isinstance(node.op, Rectifier) and node.inputs[0] not in reached):
            continue
        elif graph.keeps_statistics(node):
            bits["xhat"] += 32 * results if node.full_name("weight") in blocks else 0
        elif isinstance(node.op, BatchNorm | GroupNorm | LayerNorm | RMSNorm):
            bits["xhat"] += 32 * results
        elif isinstance(node.op, CURVES):
            bits["curves"] += 32 * _of_curves(node, graph)
        elif isinstance(node.op, Rectifier):
            bits["signs"] += results
        elif isinstance(node.op, MaxPool2d):
            bits["winners"] += results * (math.prod(node.op.kernel_size) - 1).bit_length()
    bits["inputs"] = 32 * sum(inputs.values())
    return bits


def _of_curves(node: Node, graph: Graph) -> int:
    """Return the scalars that the backward pass of a function of single values or of Attention reads again."""
    shapes = graph.shapes
    if isinstance(node.op, Attention):
        return (node.op.rows + node.op.num_heads) * shapes[node.name][-1]
    if isinstance(node.op, Reduce):
        return math.prod(shapes[node.inputs[0]]) if node.op.kind in ("max", "min") else 0
    if isinstance(node.op, Mul | Elementwise):
        return sum(math.prod(shapes[name]) for name in node.inputs)
    return math.prod(shapes[node.name])


def _of_sequences(op: Operation, result: Shape) -> int:
    """Return the scalars that a recurrent layer or attention reads again in addition to its input. 0 for other
    operations.
    """
    places = result[-1]
    if isinstance(op, Recurrent):  # gates, states before each step, and cells or the hidden part of n
        return (op.gates + 2) * op.hidden_size * places
    return 3 * op.features * places + op.num_heads * places**2 if isinstance(op, SelfAttention) else 0


def _source(graph: Graph, node: Node) -> str:
    """Return the result that a node reads, seen through views."""
    makers = {maker.name: maker for maker in graph.nodes}
    name = node.inputs[0]
    while name in makers and isinstance(makers[name].op, VIEWS):
        name = makers[name].inputs[0]
    return name
