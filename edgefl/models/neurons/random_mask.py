"""A random mask with an exact number of coordinates for every weight.

All sets of that many coordinates are equally likely. density.py gives the numbers. Source: FedSpa, see
docs/algorithms.md section 8.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from edgefl import rng
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.block_index import read_only
from edgefl.models.neurons.density import Distribution, counts, weights
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.top_k import smallest


def random_mask(spec: ModelSpec, density: float, distribution: Distribution, seed: int, client: int = 0) -> Mask:
    """Return the mask of that density for this seed and client. Equal arguments give equal masks on every machine.

    Raises  ValueError like density.counts.
    """
    shapes = weights(spec)
    return _drawn(tuple(shapes.items()), tuple(counts(shapes, density, distribution).values()), seed, client)


def pick(candidates: Bits, count: int, stream: rng.Stream) -> Bits:
    """Return exactly `count` of the candidate coordinates, in their shape. It takes one word for each candidate."""
    positions = np.flatnonzero(candidates)
    bits = np.zeros(candidates.shape, np.bool_)
    bits.reshape(-1)[positions[smallest(stream.raw(len(positions)), count)]] = True
    return bits


@lru_cache(maxsize=1)  # keeps the last mask, which all clients may have in common
def _drawn(shapes: tuple[tuple[str, Shape], ...], ones: tuple[int, ...], seed: int, client: int) -> Mask:
    found = {}
    for number, ((name, shape), count) in enumerate(zip(shapes, ones, strict=True)):
        if count < math.prod(shape):
            everything = np.broadcast_to(np.True_, shape)
            found[name] = read_only(pick(everything, count, rng.stream(seed, rng.MASK, client, extra=number)))
    return Mask(found)
