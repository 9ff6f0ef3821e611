"""The change of a sparse model's mask: weights of small magnitude leave it and as many other weights enter.

The learner finds the weights that enter by their gradients (Learner.strongest), because no dense gradient is kept. The
methods decide when masks change and who changes them. Source: RigL (Evci et al., ICML 2020) and FedSpa, see
docs/algorithms.md section 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.models.neurons.mask import Bits
from edgefl.models.neurons.random_mask import pick
from edgefl.models.neurons.top_k import magnitudes, smallest
from edgefl.models.neurons.update import Array


class PruningResult(NamedTuple):
    """The result of pruning.

    kept    by parameter, the coordinates that are left, as booleans of the parameter's shape
    counts  by parameter, the number of coordinates that have left
    nans    number of weights in the mask that were not numbers
    """

    kept: dict[str, Bits]
    counts: dict[str, int]
    nans: int


def annealed(first: float, step: int, steps: int) -> float:
    """Return the prune rate in step 0, 1, ... of `steps`. It falls from `first` to 0 along half a cosine.

    With a single step it is `first`.
    """
    if steps == 1:
        return first
    return 0.5 * first * (1 + math.cos(math.pi * step / (steps - 1)))


def prune_count(rate: float, ones: int, floor: bool = False) -> int:
    """Return the number of coordinates that leave at this rate, rounded up, or rounded down with `floor` as in RigL."""
    return min(ones, max(0, math.floor(rate * ones + 1e-9) if floor else math.ceil(rate * ones - 1e-9)))


def prune(
    values: Mapping[str, Array],
    bits: Mapping[str, Bits],
    rate: float,
    *,
    floor: bool = False,
    exclude_just_pruned: bool = False,
) -> PruningResult:
    """Remove the share `rate` of smallest |value| from every parameter of a mask, the first of equal values first.

    values               whole parameters, of which only the values in the mask count
    floor                whether numbers of coordinates are rounded down
    exclude_just_pruned  whether removed coordinates may not return at once: then at most as many leave as others can
                         enter
    A NaN counts as infinite, so that it stays as long as another value can leave.
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
    """Return the bits with the coordinates at these positions of the flattened parameters added."""
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
    """Return the bits with counts[name] coordinates of each parameter added. All candidates are equally likely.

    round    round from 1, because round 0 of this stream draws first masks
    outside  bits whose zeros are the candidates, and which have at least the ones of `kept`. None: `kept` itself
    """
    return grown_by(lambda number: rng.stream(seed, rng.MASK, client, round, number), kept, counts, outside)


def grown_by(
    generator: Callable[[int], rng.Stream],
    kept: Mapping[str, Bits],
    counts: Mapping[str, int],
    outside: Mapping[str, Bits] | None = None,
) -> dict[str, Bits]:
    """Return what `grown_at_random` returns, with the stream that `generator` has for each parameter's number."""
    found = {}
    for number, (name, bits) in enumerate(kept.items()):
        found[name] = bits | pick(~(outside or kept)[name], counts.get(name, 0), generator(number))
    return found
