"""Every built-in model tracks torch in float64 over several training steps, on every backend, whole and half frozen.

VGG and ResNet take the smallest input and batches that they allow, to stay quick. Two bounds: on every step's loss, and
on the distance from torch's parameters as a share of the distance these moved, plus a few roundings of the parameters
themselves. Rounding grows with depth; a wrong gradient misses both by orders of magnitude.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import models, rng
from edgefl.graph import Graph, Params
from edgefl.learners import SGD, GraphLearner, Samples
from edgefl.selection import NeuronSet

from . import oracle
from .graphs import model, samples

CLASSES, STEPS = 10, 5
DEEP = ("vgg11", "resnet18")
LARGE = (*DEEP, "pflego_cifar", "pflego_omniglot")  # too slow for numpy here
BOUNDS = {name: (1e-3, 5e-2) if name in DEEP else (2e-5, 2e-3) for name in models.NAMES}  # loss, distance
ROUNDING = 1e-6
INPUTS = {"digits_cnn": (1, 8, 8), "lenet5": (1, 28, 28), "pflego_mlp": (1, 28, 28), "pflego_omniglot": (1, 28, 28)}
CASES = [
    *((name, "native", 0.5) for name in models.NAMES),
    *((name, "native", 1.0) for name in models.NAMES if name not in DEEP),
    *((name, "reference", 0.5) for name in models.NAMES if name not in LARGE),
    *((name, "numba", 0.5) for name in ("digits_cnn", "fedspu_cifar")),
]


def _expected(
    graph: Graph, data: Samples, batches: list[np.ndarray], sgd: SGD, keep: float
) -> tuple[Params, list[float]]:
    learner = GraphLearner(model(graph), "reference")
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(5, rng.NEURONS))
    params, losses = dict(learner.params), []
    for batch in batches:
        params, loss = oracle.train(graph, params, data, [batch], sgd, neurons.blocks(learner.spec, kinds=("learn",)))
        losses.append(loss)
    return params, losses


@pytest.mark.parametrize(("name", "backend", "keep"), CASES)
def test_training_tracks_torch(name: str, backend: str, keep: float) -> None:
    if backend == "numba":
        pytest.importorskip("numba", reason="numba is an optional package")
    graph, sgd = models.build(name, INPUTS.get(name, (3, 32, 32)), CLASSES), SGD(0.001 if name in DEEP else 0.01)
    size = 2 if name in DEEP else 4
    data = samples(graph, size * STEPS, classes=CLASSES)
    batches = [np.arange(size * step, size * (step + 1), dtype=np.int32) for step in range(STEPS)]
    expected, losses = _expected(graph, data, batches, sgd, keep)
    learner = GraphLearner(model(graph), backend)
    start = {parameter: value.copy() for parameter, value in learner.params.items()}
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(5, rng.NEURONS))
    found = [learner.fit(data, [batch], sgd, neurons).loss_sum for batch in batches]
    loss_bound, move_bound = BOUNDS[name]
    np.testing.assert_allclose(found, losses, rtol=loss_bound)
    for parameter, value in expected.items():
        distance = np.linalg.norm(learner.params[parameter] - value)
        moved, size = np.linalg.norm(value - start[parameter]), np.linalg.norm(value)
        assert distance <= move_bound * moved + ROUNDING * size, f"{parameter}: {distance=} {moved=} {size=}"
