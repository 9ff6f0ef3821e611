"""A client's round of PFLEGO against a round of FedPer, both of 50 steps on the MLP of the paper.

PFLEGO passes the examples through the body twice forward and once backward, whatever the number of steps. FedPer passes
them 50 times. Counted in products of the body alone, the ratio would be 4 / 150 = .027. The two take turns, on one
thread, in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import numpy as np

from bench import machine
from bench.figures import Figure
from edgefl.experiment.presets import WHOLE
from edgefl.learning import GraphLearner, Samples
from edgefl.methods import PFLEGO, FedPer
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan
from edgefl.methods.task import Task
from edgefl.models.graph import Model, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.rng import INIT, stream

TAU, EXAMPLES = 50, 600  # examples of one of 100 clients on Fashion-MNIST
CLASSES_HELD = {"high": 2, "medium": 5, "no": 10}  # out of 10, by degree of personalisation
BAR = 0.1


class Effort(NamedTuple):
    turns: int
    steps: int


FULL, QUICK = Effort(9, TAU), Effort(1, 3)


def measure(effort: Effort) -> Iterator[Figure]:
    """Yield the ratio by the number of classes that a client holds."""
    machine.use_threads(1)
    methods = (PFLEGO(tau=effort.steps), FedPer(epochs=effort.steps, batch=WHOLE, lr=0.007))
    for degree, classes in CLASSES_HELD.items():
        rounds = [_Round(method, classes) for method in methods]
        for each in rounds:
            each.run()  # plans and binds
        times = [[each.run() for each in rounds] for _ in range(effort.turns)]
        ours, other = (median(column) for column in zip(*times, strict=True))
        note = f"{1e3 * ours:.1f} ms / {1e3 * other:.1f} ms, {classes} classes, tau {effort.steps}, {EXAMPLES} examples"
        yield Figure(f"PFLEGO / FedPer, {degree} personalisation", ours / other, "of its CPU time", BAR, note)


class _Round:
    """A client that trains again and again on the same plan."""

    def __init__(self, method: Algorithm, classes: int) -> None:
        graph, values = architectures.build("pflego_mlp", (1, 28, 28), 10), np.random.RandomState(1)
        initial, spec = graph.init(stream(1, INIT)), ModelSpec.of(graph)
        task, order = Task(spec, 1, 1, examples=EXAMPLES), np.arange(EXAMPLES, dtype=np.int32)
        images = values.randint(0, 256, (EXAMPLES, 1, 28, 28), np.uint8)
        data = Samples(images, values.randint(0, classes, EXAMPLES, np.int32), 1 / 255)
        learner = GraphLearner(Model(graph, initial))
        self._method, self._client_state = method, ClientState(0, 1, spec, learner, data, order, order[:0], order[:0])
        self._plan: Plan = method.plan(task, method.start(task, initial), 1)[0]

    def run(self) -> float:
        """Return the CPU time of one training."""
        started = time.process_time()
        self._method.train(self._client_state, self._plan)
        return time.process_time() - started
