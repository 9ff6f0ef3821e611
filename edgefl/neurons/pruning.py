"""How a sparse model's mask moves: weights of small magnitude leave it, as many others enter, and its size stays.

What enters by its gradient is the learner's to find (Learner.strongest), as no dense gradient is kept. Not when masks
move, nor who moves them. Source: RigL (Evci et al., ICML 2020) and FedSpa; ALGORITHMS 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.neurons.mask import Bits
from edgefl.neurons.random_mask import pick
from edgefl.neurons.ranking import magnitudes, smallest
from edgefl.neurons.update import Array


class Pruned(NamedTuple):
    """What is left after pruning, by parameter; how many coordinates left; and how many weights were no numbers."""

    kept: dict[str, Bits]
    counts: dict[str, int]
    nans: int


def annealed(first: float, step: int, steps: int) -> float:
    """The prune rate in step 0, 1, ... of so many: from `first` to 0 along half a cosine; `first` of a single step."""
    if steps == 1:
        return first
    return 0.5 * first * (1 + math.cos(math.pi * step / (steps - 1)))


def prune_count(rate: float, ones: int) -> int:
    """How many of so many coordinates leave at this rate."""
    return min(ones, max(0, math.ceil(rate * ones - 1e-9)))


def prune(values: Mapping[str, Array], bits: Mapping[str, Bits], rate: float) -> Pruned:
    """Takes the share `rate` of smallest |value| out of every parameter of a mask; of equal ones the first go.

    values  whole parameters; what they are off the mask has no part in it
    A NaN counts as infinite, so that it stays as long as anything else is there to go.
    """
    kept, gone, nans = {}, {}, 0
    for name, present in bits.items():
        places = np.flatnonzero(present)
        inside = values[name].reshape(-1)[places]
        nans += int(np.isnan(inside).sum())
        gone[name] = prune_count(rate, len(places))
        left = present.copy()
        left.reshape(-1)[places[smallest(magnitudes(inside), gone[name])]] = False
        kept[name] = left
    return Pruned(kept, gone, nans)


def grown(kept: Mapping[str, Bits], places: Mapping[str, NDArray[np.uint32]]) -> dict[str, Bits]:
    """The bits with these coordinates added, by flat index."""
    found = {}
    for name, bits in kept.items():
        found[name] = bits.copy()
        if name in places:
            found[name].reshape(-1)[places[name]] = True
    return found


def grown_at_random(
    kept: Mapping[str, Bits], counts: Mapping[str, int], seed: int, client: int, round: int
) -> dict[str, Bits]:
    """The bits with so many of the other coordinates of each parameter added, each equally likely.

    round  from 1: round 0 of this stream draws first masks
    """
    found = {}
    for number, (name, bits) in enumerate(kept.items()):
        stream = rng.stream(seed, rng.MASK, client, round, number)
        found[name] = bits | pick(~bits, counts.get(name, 0), stream)
    return found
