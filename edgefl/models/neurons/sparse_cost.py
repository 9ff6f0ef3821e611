"""The nominal cost of sparse training by the formulas of the paper: floating point operations, and values in messages.

The real cost differs. A learner skips the gradient of the first layer's input, and may run a sparse layer dense.
Source: FedSpa, tables 1 and 3, see docs/algorithms.md section 10.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Shape
from edgefl.models.identity_cache import IdentityCache
from edgefl.models.neurons.density import Distribution, counts, weights
from edgefl.models.neurons.model_spec import ModelSpec

PASSES = 3  # passes over a batch: one forward, one backward to the parameters, and one backward to the inputs
VALUE = 4  # bytes of a value

_counted = IdentityCache[int](64)  # multiply-accumulates of one example, by graph


def densities(shapes: Mapping[str, Shape], density: float, distribution: Distribution) -> dict[str, float]:
    """Return for every weight the share of its coordinates that a mask has."""
    ones = counts(shapes, density, distribution)
    return {name: ones[name] / math.prod(shape) for name, shape in shapes.items()}


def flops(graph: Graph, shares: Mapping[str, float], examples: int) -> float:
    """Return the floating point operations of steps over `examples` samples, in three passes.

    Each multiply-accumulate counts as two operations, times the share of the weight that a mask has.
    shares  share by parameter. A parameter that is not listed is whole
    """
    total = sum(shares.get(weight, 1.0) * count for weight, count in _macs(graph)) if shares else _all_macs(graph)
    return 2.0 * PASSES * examples * total


def _macs(graph: Graph) -> Iterator[tuple[str, int]]:
    """Yield each weight with its multiply-accumulates of one example."""
    for node in graph.nodes:
        for weight, count in node.op.macs_by_weight(graph.shapes[node.name]).items():
            yield node.full_name(weight), count


def _all_macs(graph: Graph) -> int:
    """Return the multiply-accumulates of one example, which are counted once for each graph."""
    found = _counted.get(graph)
    return _counted.put(sum(count for _, count in _macs(graph)), graph) if found is None else found


def sparse_round(graph: Graph, density: float, distribution: Distribution, seen: int, searched: int) -> float:
    """Return the floating point operations of a client's round.

    seen      number of samples that are trained at the client's mask
    searched  number of samples in the dense batch by which the mask grows
    """
    shares = densities(weights(ModelSpec.of(graph)), density, distribution)
    return flops(graph, shares, seen) + flops(graph, {}, searched)


def nominal_bytes(graph: Graph, down: float, up: float) -> float:
    """Return the bytes of one client's round at the densities `down` and `up`.

    They count values of all parameters except frozen ones, and no masks.
    """
    scalars = sum(math.prod(info.shape) for info in graph.parameters().values() if info.kind != "frozen")
    return VALUE * scalars * (down + up)


def mask_values(spec: ModelSpec, density: float, distribution: Distribution) -> int:
    """Return the number of values of a message at a mask: its ones, and all parameters that it does not thin."""
    shapes = weights(spec)
    rest = sum(math.prod(spec.params[name].shape) for name in spec.exchanged if name not in shapes)
    return rest + sum(counts(shapes, density, distribution).values())
