"""The cost of a client's round by its share of neurons and its cut, counted, and the shares and cuts that a budget
allows. Not a method.

Counted are the multiply-adds of the learner's products (learning/lowering/product_flops.py), training memory by the
account `exact`, and values on the wire. A cut is a result of the graph before which everything stands still
(graph/cuts.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.product_flops import flops
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.running.cached_prefix import chunk_of
from edgefl.methods.throughput import Throughput, Workload
from edgefl.models.graph import Graph
from edgefl.models.graph.cuts import after, cuts
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

GOOD_PART = 0.5  # of a round's seconds


class SubmodelOption(NamedTuple):
    """A part of the model that a client may be asked to train: a share of active neurons, after a cut; "": all of the
    model's layers.
    """

    keep: float
    cut: str = ""


class Effort(NamedTuple):
    """The effort of a client's training: passes over its samples in a round, and examples in a step."""

    epochs: int
    batch: int


class Cost(NamedTuple):
    """The cost of a client's round.

    still, steps  multiply-adds for each training sample: of what stands still, once, and of all passes' steps
    memory        bytes of training, with the results of one batch kept at a cut
    values        down and up
    """

    still: float
    steps: float
    memory: int
    values: int

    @property
    def macs(self) -> float:
        """Multiply-adds for each training sample."""
        return self.still + self.steps


class Shares(NamedTuple):
    """A budget, each part of what the same costs a client that trains everything; infinity: no bound."""

    macs: float = math.inf
    memory: float = math.inf
    values: float = math.inf

    def allows(self, cost: Cost, dense: Cost) -> bool:
        """Whether a round that costs this is within the budget, of one that costs `dense`."""
        parts = (cost.macs, dense.macs), (cost.memory, dense.memory), (cost.values, dense.values)
        return all(found <= most * whole for (found, whole), most in zip(parts, self, strict=True))


class Timing(NamedTuple):
    """The time limit of a device's rounds: the available seconds, and the throughput that the device reports."""

    seconds: float
    throughput: Throughput


@lru_cache(maxsize=512)
def cost(graph: Graph, offer: SubmodelOption, effort: Effort) -> Cost:
    """The cost of a round of FedSPU. The draw of the neurons makes no difference except under GroupNorm; the first
    neurons are counted.

    Raises  GraphError for a cut that is none.
    """
    spec, batch = ModelSpec.of(graph), effort.batch
    training = TrainingConfiguration("", graph, batch, keep=offer.keep, examples=batch, cut=offer.cut)
    found = estimate("exact", training)
    assert found.flops is not None  # the account knows them
    still, trained = 0.0, spec
    if offer.cut:
        chunk = chunk_of(graph, offer.cut)
        still = flops(lower(graph, spec, chunk, mode="features", cut=offer.cut)) / 2 / chunk
        trained = spec.part(after(graph, offer.cut))
    neurons = training.neurons or NeuronSet.full(spec)
    before = sum(math.prod(spec.params[name].shape) for name in spec.exchanged if name not in trained.params)
    both_ways = 2 * neurons.count(trained, ("learn", "stat"))
    return Cost(still, effort.epochs * found.flops / 2 / batch, found.total, before + both_ways)


def offers(graph: Graph, keeps: Sequence[float]) -> Iterator[SubmodelOption]:
    """All there are at these shares, what is preferred first: a larger share, and of one share an earlier cut."""
    for keep in sorted(set(keeps), reverse=True):
        yield from (SubmodelOption(keep, cut) for cut in ("", *trained_after(graph)))


@lru_cache(maxsize=64)
def trained_after(graph: Graph) -> tuple[str, ...]:
    """The graph's cuts after which something is trained."""
    return tuple(cut for cut in cuts(graph) if ModelSpec.of(after(graph, cut)).learned)


def choose(graph: Graph, keeps: Sequence[float], effort: Effort, shares: Shares) -> SubmodelOption:
    """The first offer at these shares that is within the budget; if none is, the one of fewest multiply-adds."""
    dense, found = cost(graph, SubmodelOption(1.0), effort), list(offers(graph, keeps))
    within = (offer for offer in found if shares.allows(cost(graph, offer, effort), dense))
    return next(within, None) or min(found, key=lambda offer: cost(graph, offer, effort).macs)


def work(graph: Graph, offer: SubmodelOption, effort: Effort, examples: int) -> Workload:
    """The work of a round over so many training samples."""
    found = cost(graph, offer, effort)
    return Workload(found.still * examples, found.steps * examples, effort.epochs * -(-examples // effort.batch))


def in_time(graph: Graph, keeps: Sequence[float], effort: Effort, timing: Timing) -> tuple[SubmodelOption, float]:
    """Of the offers at these shares that a device of this throughput trains within the seconds the first that takes a
    good part of them, and what it is foretold to take; if none does, the one that takes the most. So devices of unlike
    speed take about as long. Where none is within, it is the one that takes the fewest.

    An offer that does not fit the device's memory is none, unless none fits.
    """
    throughput, found = timing.throughput, list(offers(graph, keeps))
    if throughput.memory is not None:
        found = [each for each in found if cost(graph, each, effort).memory <= throughput.memory] or found
    foretold = {offer: throughput.seconds(work(graph, offer, effort, throughput.examples)) for offer in found}
    within = [offer for offer in found if foretold[offer] <= timing.seconds]
    if not within:
        offer = min(found, key=foretold.__getitem__)
    else:
        busy = (offer for offer in within if foretold[offer] >= GOOD_PART * timing.seconds)
        offer = next(busy, None) or max(within, key=foretold.__getitem__)
    return offer, foretold[offer]
