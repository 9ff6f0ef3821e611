"""The move of a sparse model's mask: weights of small magnitude leave the mask, as many other weights enter, and the
size stays.

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
from edgefl.models.neurons.mask import Bits
from edgefl.models.neurons.random_mask import pick
from edgefl.models.neurons.top_k import magnitudes, smallest
from edgefl.models.neurons.update import Array


class PruningResult(NamedTuple):
    """The result of pruning by parameter: the coordinates that are left, how many have left, and how many weights were
    not numbers.
    """

    kept: dict[str, Bits]
    counts: dict[str, int]
    nans: int


def annealed(first: float, step: int, steps: int) -> float:
    """The prune rate in step 0, 1, ... of so many: from `first` to 0 along half a cosine; `first` of a single step."""
    if steps == 1:
        return first
    return 0.5 * first * (1 + math.cos(math.pi * step / (steps - 1)))


def prune_count(rate: float, ones: int, floor: bool = False) -> int:
    """The number of coordinates that leave at this rate, rounded up; or down, as in RigL."""
    return min(ones, max(0, math.floor(rate * ones + 1e-9) if floor else math.ceil(rate * ones - 1e-9)))


def prune(
    values: Mapping[str, Array],
    bits: Mapping[str, Bits],
    rate: float,
    *,
    floor: bool = False,
    exclude_just_pruned: bool = False,
) -> PruningResult:
    """Takes the share `rate` of smallest |value| out of every parameter of a mask; of equal ones the first go.

    values               whole parameters; what they are off the mask has no part in it
    floor                numbers are rounded down
    exclude_just_pruned  what leaves will not return at once: no more leave than there are to enter in their place
    A NaN counts as infinite, so that it stays as long as anything else is there to go.
    """
    kept, gone, nans = {}, {}, 0
    for name, present in bits.items():
        positions = np.flatnonzero(present)
        inside = values[name].reshape(-1)[positions]
        nans += int(np.isnan(inside).sum())
        others = present.size - len(positions)
        gone[name] = min(prune_count(rate, len(positions), floor), others if exclude_just_pruned else len(positions))
        left = present.copy()
        left.reshape(-1)[positions[smallest(magnitudes(inside), gone[name])]] = False
        kept[name] = left
    return PruningResult(kept, gone, nans)


def grown(kept: Mapping[str, Bits], positions: Mapping[str, NDArray[np.uint32]]) -> dict[str, Bits]:
    """The bits with these coordinates added, by flat index."""
    found = {}
    for name, bits in kept.items():
        found[name] = bits.copy()
        if name in positions:
            found[name].reshape(-1)[positions[name]] = True
    return found


def grown_at_random(
    kept: Mapping[str, Bits],
    counts: Mapping[str, int],
    seed: int,
    client: int,
    round: int,
    outside: Mapping[str, Bits] | None = None,
) -> dict[str, Bits]:
    """The bits with so many coordinates of each parameter added, each of those that are outside equally likely.

    round    from 1: round 0 of this stream draws first masks
    outside  of a mask that has at least the same ones; None: of the bits themselves
    """
    found = {}
    for number, (name, bits) in enumerate(kept.items()):
        stream = rng.stream(seed, rng.MASK, client, round, number)
        found[name] = bits | pick(~(outside or kept)[name], counts.get(name, 0), stream)
    return found
