"""The move of a client's mask of a sparse model: one function from the present mask to the next mask.

`NextMask` is the form of this function. The file has the functions of FedSpa's searches: prune and grow (DST and SET),
and SNIP. fedspa.py says when a client calls the function, and what is sent. A subclass of FedSpa may have a function of
its own (docs/own-method.md).

Source  FedSpa, Alg. 1. SET: Mocanu et al. (Nature Communications 2018). SNIP: Lee et al. (ICLR 2019). ALGORITHMS 3, 4
        and 8
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.learning.learner import Learner, Samples
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.prune_and_grow import grown, grown_by, prune
from edgefl.models.neurons.top_k import largest, magnitudes
from edgefl.models.neurons.update import Array

Growth = Literal["gradient", "random"]
Generator = Callable[[int], rng.Stream]


@dataclass(frozen=True)
class BatchGradient:
    """The gradient of the mean loss of one batch at a client's trained weights. It is computed when it is asked for.

    learner  learner that holds the weights
    samples  samples of the client
    index    samples of the batch
    spec     specification of the model
    key      key of the values that dropout drops in `dense`
    """

    learner: Learner
    samples: Samples
    index: NDArray[np.int32]
    spec: ModelSpec
    key: int

    def dense(self, names: Collection[str]) -> dict[str, Array]:
        """Return the gradient of these whole parameters, without weight decay.

        The learner holds all of it, whereas `strongest` needs less memory. Afterwards the learner is not restricted.
        """
        self.learner.restrict(None)
        found = self.learner.gradient(self.samples, self.index, frozenset(names), key=self.key)
        return {name: found[name] for name in names}

    def strongest(self, outside: Mapping[str, Bits], counts: Mapping[str, int]) -> Mapping[str, NDArray[np.uint32]]:
        """Return for each named parameter the positions of the `counts[name]` largest |gradient| where `outside` is
        false.
        """
        return self.learner.strongest(self.samples, self.index, Mask.of(self.spec, outside), counts)


class NextMask(Protocol):
    """A function that returns a client's next mask. It must keep every parameter's number of ones."""

    def __call__(
        self,
        old: Mapping[str, Bits],
        weights: Mapping[str, Array],
        gradient: BatchGradient,
        density: Mapping[str, float],
        round: int,
        generator: Generator,
    ) -> Mapping[str, Bits]:
        """Return the bits of the next mask, by parameter.

        old        bits of the mask under which the client trained, by parameter
        weights    whole parameters of `old` after training, 0 where the mask has no coordinate
        gradient   gradient of one batch at these weights
        density    share of ones of every parameter of `old`
        round      number of the round, from 1
        generator  stream of random numbers for a number, as of a parameter. It depends on seed, client and round
        """


@dataclass(frozen=True)
class PruneAndGrow:
    """DST and SET: the weights of smallest magnitude leave, and as many coordinates enter.

    rate                 share of the ones that leaves
    growth               how coordinates enter: by the largest 'gradient' (DST), or at 'random' (SET)
    floor                whether the number of coordinates that leave is rounded down
    exclude_just_pruned  whether a coordinate that has just left cannot enter again at once
    """

    rate: float
    growth: Growth = "gradient"
    floor: bool = False
    exclude_just_pruned: bool = False

    def __call__(
        self,
        old: Mapping[str, Bits],
        weights: Mapping[str, Array],
        gradient: BatchGradient,
        density: Mapping[str, float],
        round: int,
        generator: Generator,
    ) -> dict[str, Bits]:
        pruned = prune(weights, old, self.rate, floor=self.floor, exclude_just_pruned=self.exclude_just_pruned)
        counts = {name: n for name, n in pruned.counts.items() if n}
        outside = old if self.exclude_just_pruned else pruned.kept
        if self.growth == "random":
            return grown_by(generator, pruned.kept, counts, outside)
        return grown(pruned.kept, gradient.strongest(outside, counts))


def most_sensitive(
    old: Mapping[str, Bits],
    weights: Mapping[str, Array],
    gradient: BatchGradient,
    density: Mapping[str, float],
    round: int,
    generator: Generator,
) -> dict[str, Bits]:
    """SNIP: return in every parameter the coordinates with the largest |weight * gradient|, at its density.

    The first of equal products are taken. The paper ranks all layers together. Here the densities give every layer its
    number of ones [ours].
    """
    slopes, found = gradient.dense(old.keys()), {}
    for name, bits in old.items():
        found[name] = np.zeros(bits.shape, np.bool_)
        strength = magnitudes(weights[name] * slopes[name])
        found[name].reshape(-1)[largest(strength, int(np.rint(density[name] * bits.size)))] = True
    return found
