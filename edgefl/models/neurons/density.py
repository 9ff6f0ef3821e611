"""The density of every layer's weights in a sparse model, as exact numbers of ones.

The density follows Erdos-Renyi-Kernel or is uniform. A weight is a parameter of two or more dimensions. Biases and
norms are always whole and are not counted. The coordinates are chosen in random_mask.py and prune_and_grow.py.
The rules come from Evci et al. (ICML 2020) and FedSpa, see docs/algorithms.md section 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.model_spec import ModelSpec, layer_of

Distribution = Literal["erk", "uniform"]


def weights(spec: ModelSpec) -> dict[str, Shape]:
    """Return the shapes of the parameters that a mask may thin out, by name.

    Frozen weights and sources of computed parameters are not among them.
    """
    whole = {source for sources in spec.computed.values() for source in sources}
    names = [name for name in spec.exchanged if name not in whole]
    many = {name: spec.params[name].shape for name in names if len(spec.params[name].shape) > 1}
    return {name: shape for name, shape in many.items() if not _is_affine(spec, name)}


def _is_affine(spec: ModelSpec, name: str) -> bool:
    """Return whether the layer has a weight and a bias of equal shape, which are an affine pair as in LayerNorm."""
    weight, bias = (spec.params.get(f"{layer_of(name)}.{part}") for part in ("weight", "bias"))
    return weight is not None and bias is not None and weight.shape == bias.shape


def counts(shapes: Mapping[str, Shape], density: float, distribution: Distribution) -> dict[str, int]:
    """Return the number of coordinates of each weight. Their sum is round(density * number of all coordinates).

    shapes        shapes of the weights by name
    density       density of all weights together, 0 < density <= 1
    distribution  "erk" or "uniform"
    The number of each weight is rounded from the density of its layer, and then adjusted until the sum is right.
    Raises   ValueError if the density is out of range, or if there are no weights.
    """
    shares = erk(shapes, density) if distribution == "erk" else uniform(shapes, density)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    found = {name: round(shares[name] * size) for name, size in sizes.items()}
    return _corrected(found, sizes, round(density * sum(sizes.values())))


def uniform(shapes: Mapping[str, Shape], density: float) -> dict[str, float]:
    """Return the density of the model for every weight. Raises ValueError like `counts`."""
    _check(shapes, density)
    return dict.fromkeys(shapes, density)


def erk(shapes: Mapping[str, Shape], density: float) -> dict[str, float]:
    """Return densities in proportion to (sum of extents) / (product of extents), but at most 1.

    The factor eps of the proportion is solved for exactly. A weight whose density would exceed 1 is whole, and eps is
    then solved for the other weights.
    Raises  ValueError like `counts`.
    """
    _check(shapes, density)
    raw = {name: sum(shape) / math.prod(shape) for name, shape in shapes.items()}
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    whole: set[str] = set()
    while rest := shapes.keys() - whole:
        eps = _factor(density, sizes, raw, rest)
        top = max(raw[name] for name in rest)
        if eps * top <= 1:
            return {name: 1.0 if name in whole else eps * raw[name] for name in shapes}
        whole |= {name for name in rest if raw[name] == top}
    return dict.fromkeys(shapes, 1.0)


def _factor(density: float, sizes: Mapping[str, int], raw: Mapping[str, float], rest: set[str]) -> float:
    """Return eps, which gives the weights of `rest` what the whole weights leave of the budget.

    Raises  ValueError if the whole weights leave nothing.
    """
    thin = math.fsum(sizes[name] for name in sizes if name in rest)
    left = density * thin - (1 - density) * (sum(sizes.values()) - thin)
    if left <= 0:
        raise ValueError(
            f"density={density} leaves no weights except in the layers that stay whole; expected a larger density"
        )
    return left / math.fsum(raw[name] * sizes[name] for name in sizes if name in rest)


def _corrected(found: dict[str, int], sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Return the counts with their sum brought to `total`, in steps of one on the largest weights that are not whole.

    Whole weights change only if rounding has filled all others.
    """
    largest = sorted(sizes, key=lambda name: -sizes[name])
    while missing := total - sum(found.values()):
        step = 1 if missing > 0 else -1
        able = [name for name in largest if 0 <= found[name] + step <= sizes[name]]
        thin = [name for name in able if found[name] < sizes[name]]
        for name in (thin or able)[: abs(missing)]:
            found[name] += step
    return found


def _check(shapes: Mapping[str, Shape], density: float) -> None:
    if not 0 < density <= 1:
        raise ValueError(f"density={density}; expected 0 < density <= 1")
    if not shapes:
        raise ValueError("a model without trained weights of two or more dimensions; expected at least one")
