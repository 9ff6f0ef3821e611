"""Every built-in model tracks torch in float64 over 50 training steps, whole and half frozen.

Other backends take 5 steps, and a CUDA device 50 (two models take 2 steps on its stand-in). VGG and ResNet take one
example, a small input and a hundredth of the rate, to stay quick and calm. There are two bounds: on the sum of the
steps' losses, and on the distance from torch's parameters, as a share of the distance that these moved, plus a few
roundings of the parameters themselves. With AVX2 the worst parameter had 2e-3, and 1e-2 in ResNet, where rounding moves
a ReLU's sign or a window's winner. A wrong gradient misses both bounds by orders of magnitude.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.models.graph import architectures
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.kernels.cuda import standin  # tests/kernels

from . import oracle
from .graphs import model, samples

CLASSES = 10
STEPS = {"native": 50, "numba": 5, "reference": 5, "cuda": 50 if standin.is_real() else 2}
DISTINCT = 5  # batches, taken in turn
DEEP = ("vgg11", "resnet18")
LARGE = (*DEEP, "pflego_cifar", "pflego_omniglot")  # too slow for numpy here
BOUNDS = {name: (1e-4, 5e-2) if name in DEEP else (1e-5, 1e-2) for name in architectures.PUBLISHED}  # loss, distance
ROUNDING = 1e-6
GREY = (1, 28, 28)
INPUTS = {"digits_cnn": (1, 8, 8), "lenet5": GREY, "pflego_mlp": GREY, "pflego_omniglot": GREY, "resnet18": (3, 16, 16)}
ON_CUDA = architectures.PUBLISHED if standin.is_real() else ("digits_cnn", "feddyn_mlp")
CASES = [
    *((name, "native", 0.5) for name in architectures.PUBLISHED),
    *((name, "native", 1.0) for name in architectures.PUBLISHED if name not in DEEP),
    *((name, "reference", 0.5) for name in architectures.PUBLISHED if name not in LARGE),
    *((name, "numba", 0.5) for name in ("digits_cnn", "fedspu_cifar")),
    *((name, "cuda", keep) for name in ON_CUDA for keep in (0.5, 1.0)),
]


@pytest.mark.parametrize(("name", "backend", "keep"), CASES)
def test_training_tracks_torch(name: str, backend: str, keep: float) -> None:
    graph = architectures.build(name, INPUTS.get(name, (3, 32, 32)), CLASSES)
    size, sgd = (1, SGD(0.0001)) if name in DEEP else (4, SGD(0.01))
    data, order = samples(graph, size * DISTINCT, classes=CLASSES), np.arange(size * DISTINCT, dtype=np.int32)
    batches = [order.reshape(DISTINCT, size)[step % DISTINCT] for step in range(STEPS[backend])]
    learner = GraphLearner(model(graph), backend)
    start = {parameter: value.copy() for parameter, value in learner.read().items()}
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(5, rng.NEURONS))
    expected, loss = oracle.train(graph, start, data, batches, sgd, neurons.blocks(learner.spec, kinds=("learn",)))
    loss_bound, move_bound = BOUNDS[name]
    assert learner.fit(data, batches, sgd, FitOptions(neurons)).loss_sum == pytest.approx(loss, rel=loss_bound)
    for parameter, value in expected.items():
        distance = np.linalg.norm(learner.read()[parameter] - value)
        moved, size = np.linalg.norm(value - start[parameter]), np.linalg.norm(value)
        assert distance <= move_bound * moved + ROUNDING * size, f"{parameter}: {distance=} {moved=} {size=}"


@pytest.mark.parametrize("keep", [1.0, 0.2])
@pytest.mark.parametrize("name", [name for name in architectures.PUBLISHED if name not in DEEP])
def test_one_and_two_threads_give_the_same_bits(name: str, keep: float) -> None:
    from edgefl.kernels import native

    graph, before, found = architectures.build(name, INPUTS.get(name, (3, 32, 32)), CLASSES), native.threads(), []
    data, index = samples(graph, 32, classes=CLASSES), np.arange(32, dtype=np.int32)
    try:
        for threads in (1, 2):
            native.set_threads(threads)
            learner = GraphLearner(model(graph), "native")
            neurons = NeuronSet.draw(learner.spec, keep, rng.stream(5, rng.NEURONS))
            learner.fit(data, [index] * 3, SGD(0.01), FitOptions(neurons))
            found.append(learner.read())
    finally:
        native.set_threads(before)
    for parameter, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][parameter], err_msg=parameter)


@pytest.mark.parametrize("name", ON_CUDA)
def test_two_runs_on_a_device_give_the_same_bits(name: str) -> None:
    standin.backend()
    graph, found = architectures.build(name, INPUTS.get(name, (3, 32, 32)), CLASSES), []
    size = 16 if standin.is_real() else 4
    data, index = samples(graph, size, classes=CLASSES), np.arange(size, dtype=np.int32)
    for _ in range(2):
        learner = GraphLearner(model(graph), "cuda")
        neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(5, rng.NEURONS))
        learner.fit(data, [index] * STEPS["cuda"], SGD(0.001), FitOptions(neurons))
        found.append(learner.read())
    for parameter, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][parameter], err_msg=parameter)
