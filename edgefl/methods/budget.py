"""The cost of a client's round, counted by its share of neurons and its cut, and the choices that a budget allows.

This module is not a method. The cost has three parts: multiply-adds of the learner's products
(learning/lowering/product_flops.py), training memory by the account `exact`, and values on the wire. A cut is a result
of the graph before which nothing is trained (graph/cuts.py).
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

GOOD_PART = 0.5  # share of a round's seconds that an offer should take


class SubmodelOption(NamedTuple):
    """The part of the model that a client may be asked to train: a share of active neurons, after a cut.

    Without a cut ("") the part has all layers of the model.
    """

    keep: float
    cut: str = ""


class Effort(NamedTuple):
    """The effort of a client's training: passes over its samples in a round, and examples in a step."""

    epochs: int
    batch: int


class Cost(NamedTuple):
    """The cost of a client's round.

    still   multiply-adds for each training sample of the part before the cut, which runs once
    steps   multiply-adds for each training sample of the steps of all passes
    memory  bytes of training, with the results of one batch kept at a cut
    values  number of values sent down and up
    """

    still: float
    steps: float
    memory: int
    values: int

    @property
    def macs(self) -> float:
        """The multiply-adds for each training sample."""
        return self.still + self.steps


class Shares(NamedTuple):
    """A budget: each part as a share of the cost of a client that trains everything. Infinity stands for no bound."""

    macs: float = math.inf
    memory: float = math.inf
    values: float = math.inf

    def allows(self, cost: Cost, dense: Cost) -> bool:
        """Return whether a round of this cost is within the budget, where `dense` is the cost of training
        everything.
        """
        parts = (cost.macs, dense.macs), (cost.memory, dense.memory), (cost.values, dense.values)
        return all(found <= most * whole for (found, whole), most in zip(parts, self, strict=True))


class Timing(NamedTuple):
    """The time limit of a device's rounds: the available seconds, and the throughput that the device reports."""

    seconds: float
    throughput: Throughput


@lru_cache(maxsize=512)
def cost(graph: Graph, offer: SubmodelOption, effort: Effort) -> Cost:
    """Return the cost of a round of FedSPU.

    Only under GroupNorm does it matter which neurons are drawn. The first neurons are counted.

    Raises  GraphError if the cut of `offer` is not a cut of the graph
    """
    spec, batch = ModelSpec.of(graph), effort.batch
    training = TrainingConfiguration("", graph, batch, keep=offer.keep, examples=batch, cut=offer.cut)
    found = estimate("exact", training)
    assert found.flops is not None  # the account `exact` counts operations
    still, trained = 0.0, spec
    if offer.cut:
        chunk = chunk_of(graph, offer.cut, batch)
        still = flops(lower(graph, spec, chunk, mode="features", cut=offer.cut)) / 2 / chunk
        trained = spec.part(after(graph, offer.cut))
    neurons = training.neurons or NeuronSet.full(spec)
    before = sum(math.prod(spec.params[name].shape) for name in spec.exchanged if name not in trained.params)
    both_ways = 2 * neurons.count(trained, ("learn", "stat"))
    return Cost(still, effort.epochs * found.flops / 2 / batch, found.total, before + both_ways)


def offers(graph: Graph, keeps: Sequence[float]) -> Iterator[SubmodelOption]:
    """Yield all offers at these shares, the preferred first: larger shares first, and at each share earlier
    cuts first.
    """
    for keep in sorted(set(keeps), reverse=True):
        yield from (SubmodelOption(keep, cut) for cut in ("", *trained_after(graph)))


@lru_cache(maxsize=64)
def trained_after(graph: Graph) -> tuple[str, ...]:
    """Return the graph's cuts after which something is trained."""
    return tuple(cut for cut in cuts(graph) if ModelSpec.of(after(graph, cut)).learned)


def choose(graph: Graph, keeps: Sequence[float], effort: Effort, shares: Shares) -> SubmodelOption:
    """Return the first offer at these shares that is within the budget, or else the one with the fewest
    multiply-adds.
    """
    dense, found = cost(graph, SubmodelOption(1.0), effort), list(offers(graph, keeps))
    within = (offer for offer in found if shares.allows(cost(graph, offer, effort), dense))
    return next(within, None) or min(found, key=lambda offer: cost(graph, offer, effort).macs)


def work(graph: Graph, offer: SubmodelOption, effort: Effort, examples: int) -> Workload:
    """Return the work of a round over `examples` training samples."""
    found = cost(graph, offer, effort)
    return Workload(found.still * examples, found.steps * examples, effort.epochs * -(-examples // effort.batch))


def in_time(graph: Graph, keeps: Sequence[float], effort: Effort, timing: Timing) -> tuple[SubmodelOption, float]:
    """Return the offer at these shares that suits a device of this throughput, and its predicted seconds.

    An offer that does not fit the device's memory is left out, unless no offer fits. Among the offers within the time
    limit, the first that takes at least GOOD_PART of the seconds is chosen, or else the one that takes the most
    seconds. So devices of different speed take about as long. If no offer is within the limit, the offer with the
    fewest seconds is chosen.
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
