"""The cost of sparse training by the formulas of the paper: floating point operations, and values on the wire. The cost
is nominal. A learner skips the gradient of the first layer's input, and may run a sparse layer dense.

Source: FedSpa, tables 1 and 3; ALGORITHMS 10.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.density import Distribution, counts, weights
from edgefl.models.neurons.model_spec import ModelSpec

PASSES = 3  # forward, and backward to the parameters and to the inputs
VALUE = 4  # bytes


def densities(shapes: Mapping[str, Shape], density: float, distribution: Distribution) -> dict[str, float]:
    """Of every weight the share of its coordinates that a mask has."""
    ones = counts(shapes, density, distribution)
    return {name: ones[name] / math.prod(shape) for name, shape in shapes.items()}


def flops(graph: Graph, shares: Mapping[str, float], examples: int) -> float:
    """The operations of steps over so many examples: two for each multiply-accumulate at these shares of weights, in
    three passes.

    shares  by parameter; {}: all weights are whole
    """
    macs = (
        shares.get(f"{node.name}.{weight}", 1.0) * count
        for node in graph.nodes
        for weight, count in node.op.macs_by_weight(graph.shapes[node.name]).items()
    )
    return 2.0 * PASSES * examples * sum(macs)


def sparse_round(graph: Graph, density: float, distribution: Distribution, seen: int, searched: int) -> float:
    """Floating point operations of a client's round: `seen` examples at its mask, and a dense batch to grow it by."""
    shares = densities(weights(ModelSpec.of(graph)), density, distribution)
    return flops(graph, shares, seen) + flops(graph, {}, searched)


def nominal_bytes(graph: Graph, down: float, up: float) -> float:
    """The bytes of one client's round at these densities: values of all parameters except frozen ones, no masks."""
    scalars = sum(math.prod(info.shape) for info in graph.parameters().values() if info.kind != "frozen")
    return VALUE * scalars * (down + up)


def mask_values(spec: ModelSpec, density: float, distribution: Distribution) -> int:
    """Values of a message at a mask: its ones, and all of what has one dimension."""
    shapes = weights(spec)
    rest = sum(math.prod(spec.params[name].shape) for name in spec.exchanged if name not in shapes)
    return rest + sum(counts(shapes, density, distribution).values())
