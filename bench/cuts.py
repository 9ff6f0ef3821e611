"""A weak client's whole round: FedSPU's at p = .2, the same behind the cut that its budget asks for, and a dense one.

A round is five epochs over as many examples as a client has in the federation bench, with B = 16, by the learner alone.
The frozen first layers run once, and their results are kept for the steps (learning/running/cached_prefix.py). One
thread is timed, in CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench import machine
from bench.federation import EXAMPLES
from bench.figures import Figure
from bench.runner import Contender, Effort, clock_for, interleave
from bench.step import SEED, Case
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Minibatches
from edgefl.methods import FedSPUCached
from edgefl.methods.budget import Effort as Passes
from edgefl.methods.budget import Shares, SubmodelOption, choose, cost
from edgefl.models.graph import Graph, Model
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import DATA, INIT, NEURONS, stream

KEEP, PASSES, LR = 0.2, Passes(epochs=5, batch=16), 1e-3
OF_FEDSPU, OF_DENSE = 0.25, 0.12
"""What is asked of a client's time at its cut, at most."""


def measure(cases: Sequence[Case], effort: Effort) -> Iterator[Figure]:
    """Yield the time of a client's round at its cut, over FedSPU's and over a dense round, beside what is counted."""
    machine.use_threads(1)
    for case in cases:
        graph = case.graph
        offer = choose(graph, (KEEP,), PASSES, Shares(FedSPUCached.budget[0]))
        offers = {"dense": SubmodelOption(1.0), "FedSPU": SubmodelOption(KEEP), "cut": offer}
        timings = interleave({name: _rounds(case, graph, each) for name, each in offers.items()}, effort, clock_for(1))
        counted = {name: cost(graph, each, PASSES).macs for name, each in offers.items()}
        for other, bar in (("FedSPU", OF_FEDSPU), ("dense", OF_DENSE)):
            spent = timings["cut"].median_s, timings[other].median_s
            note = f"{1e3 * spent[0]:.3g} of {1e3 * spent[1]:.3g} ms; {counted['cut'] / counted[other]:.3f} counted"
            of = f"a {other} client's round" if other == "dense" else f"{other}'s at p = {KEEP}"
            yield Figure(f"{case.model}, cut after {offer.cut!r}: of {of}", spent[0] / spent[1], "times", bar, note)


def _rounds(case: Case, graph: Graph, offer: SubmodelOption) -> Contender:
    values = np.random.RandomState(SEED)
    x = values.randint(0, 256, (EXAMPLES, *case.input_shape)).astype(np.uint8)
    y = values.randint(0, case.classes, EXAMPLES).astype(np.int32)
    samples, rows = Samples(x, y, scale=2 / 255, shift=-1.0), np.arange(EXAMPLES, dtype=np.int32)
    learner = GraphLearner(Model(graph, graph.init(stream(SEED, INIT))))
    neurons = None if offer.keep == 1 else NeuronSet.draw(ModelSpec.of(graph), offer.keep, stream(SEED, NEURONS))

    def order(epoch: int) -> np.ndarray:
        return stream(SEED, DATA, extra=epoch).permutation(EXAMPLES)

    batches = Minibatches(rows, order, PASSES.epochs, PASSES.batch, Keyed(SEED))

    def run(repeats: int) -> None:
        for _ in range(repeats):
            learner.fit(samples, batches, SGD(LR), FitOptions(neurons, cut=offer.cut))

    return run
