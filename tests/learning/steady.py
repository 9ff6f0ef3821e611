"""A process that trains warmed learners and counts what their steps ask of the system. test_steady.py starts it.

It reads a JSON list of [model, input shape, batch, keep]. For each, and for a control, it writes [allocations, faults]:

allocations  calls of malloc and its kin that STEPS steps in one call make beyond those of one step in one call, by the
             preloaded allocations.c
faults       page faults without I/O during STEPS steps, the fewest of TRIES times: the system may make some of its own
control      an array of 40 MB per step
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
from collections.abc import Callable

import numpy as np

from edgefl import rng
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.models.graph import Model, architectures
from edgefl.models.neurons.neuron_set import NeuronSet

STEPS, TRIES, CLASSES = 4, 3, 10
Run = Callable[[int], object]  # that many steps in one call


def training(name: str, shape: tuple[int, ...], batch: int, keep: float) -> Run:
    """Steps of a learner that has trained before, as its fit makes them."""
    graph = architectures.build(name, shape, CLASSES)
    learner = GraphLearner(Model(graph, graph.init(rng.stream(1, rng.INIT))), "native")
    values = np.random.default_rng(1)
    x = values.integers(0, 256, (2 * batch, *shape), np.uint8)
    data = Samples(x, values.integers(0, CLASSES, 2 * batch).astype(np.int32), scale=1 / 255)
    batches = np.stack([values.permutation(2 * batch)[:batch] for _ in range(STEPS)]).astype(np.int32)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(2, rng.NEURONS))
    learner.fit(data, list(batches), SGD(0.001), FitOptions(neurons))
    (session,) = learner._workspace.sessions.values()
    bound = session.programs[batch]
    return lambda count: bound.program.run_batches(bound.index, batches[:count])


def control(count: int) -> None:
    for _ in range(count):
        np.ones(5_000_000)


def faults(run: Run) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run(STEPS)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def counts(run: Run, allocations: Callable[[], int]) -> tuple[int, int]:
    asked = [allocations()]
    for count in (1, STEPS):
        run(count)
        asked.append(allocations())
    before, one, many = asked
    return (many - one) - (one - before), min(faults(run) for _ in range(TRIES))


def main() -> None:
    allocations = ctypes.CDLL(None).allocations
    allocations.restype = ctypes.c_long
    cases = json.load(sys.stdin)
    found = [counts(training(name, tuple(shape), batch, keep), allocations) for name, shape, batch, keep in cases]
    print(json.dumps([*found, counts(control, allocations)]))


if __name__ == "__main__":
    main()
