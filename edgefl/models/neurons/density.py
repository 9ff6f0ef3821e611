"""The density of every layer's weights in a sparse model, by Erdos-Renyi-Kernel or another rule, as exact numbers of
ones.

A weight is a parameter of two or more dimensions; biases and norms are always whole, and count nowhere. Not
which coordinates there are (random_mask.py, prune_and_grow.py).
Source: Evci et al. (ICML 2020) and FedSpa; ALGORITHMS 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.model_spec import ModelSpec, layer_of

Distribution = Literal["erk", "uniform"]


def weights(spec: ModelSpec) -> dict[str, Shape]:
    """The parameters that a mask may thin out, by name. Frozen weights stay dense, and count nowhere."""
    many = {name: spec.params[name].shape for name in spec.exchanged if len(spec.params[name].shape) > 1}
    return {name: shape for name, shape in many.items() if not _is_affine(spec, name)}


def _is_affine(spec: ModelSpec, name: str) -> bool:
    """Whether the layer has a weight and a bias of one shape: an affine pair for each value, as LayerNorm's."""
    weight, bias = (spec.params.get(f"{layer_of(name)}.{part}") for part in ("weight", "bias"))
    return weight is not None and bias is not None and weight.shape == bias.shape


def counts(shapes: Mapping[str, Shape], density: float, distribution: Distribution) -> dict[str, int]:
    """The number of coordinates of each weight: round(density * all) together, each within one of its own share.

    shapes   of the weights
    density  of all weights together, 0 < density <= 1
    Raises   ValueError if it is out of range, or there are no weights.
    """
    shares = erk(shapes, density) if distribution == "erk" else uniform(shapes, density)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    found = {name: round(shares[name] * size) for name, size in sizes.items()}
    return _corrected(found, sizes, round(density * sum(sizes.values())))


def uniform(shapes: Mapping[str, Shape], density: float) -> dict[str, float]:
    """Every weight as dense as the model."""
    _check(shapes, density)
    return dict.fromkeys(shapes, density)


def erk(shapes: Mapping[str, Shape], density: float) -> dict[str, float]:
    """Densities in proportion to (sum of extents) / (product of extents), as far as none exceeds 1.

    The factor eps is solved for exactly: weights that it would take beyond 1 are whole, and then it is the others'.
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
    """eps, with which the weights of `rest` have what the whole ones leave of the budget."""
    thin = math.fsum(sizes[name] for name in sizes if name in rest)
    left = density * thin - (1 - density) * (sum(sizes.values()) - thin)
    if left <= 0:
        raise ValueError(f"density={density} leaves nothing beside the layers that are whole; expected a larger one")
    return left / math.fsum(raw[name] * sizes[name] for name in sizes if name in rest)


def _corrected(found: dict[str, int], sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """The counts with their sum brought to `total`, one by one on the largest weights that are not whole. On whole
    ones, where rounding has filled all others.
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
        raise ValueError("a model without weights of two or more dimensions that are trained; expected some")
