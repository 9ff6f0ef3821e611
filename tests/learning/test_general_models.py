"""Models that follow the shape of the data: as torch computes them, and trained alike by every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgefl.errors import GraphError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.models.graph import Model, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import INIT, NEURONS, stream
from edgefl.torch import to_torch

CASES = [  # name, shape of an example, vocabulary
    ("mlp", (7,), None),
    ("line_cnn", (6, 40), None),
    ("line_cnn", (1, 3), None),
    ("cnn", (3, 20, 30), None),
    ("cnn", (1, 2, 2), None),
    ("text_cnn", (12,), 30),
]
EXAMPLES, CLASSES = 24, 5


def model_and_samples(name: str, shape: tuple[int, ...], vocabulary: int | None) -> tuple[Model, Samples]:
    graph = architectures.build(name, shape, CLASSES, vocabulary)
    random_stream = np.random.default_rng(3)
    x = (
        random_stream.integers(0, vocabulary, (EXAMPLES, *shape))
        if vocabulary
        else random_stream.normal(5, 100, (EXAMPLES, *shape))
    )
    y = random_stream.integers(0, CLASSES, EXAMPLES).astype(np.int32)
    return Model(graph, graph.init(stream(1, INIT))), Samples(x.astype(np.float32), y)


@pytest.mark.parametrize(("name", "shape", "vocabulary"), CASES)
def test_torch_computes_the_same(name: str, shape: tuple[int, ...], vocabulary: int | None) -> None:
    model, samples = model_and_samples(name, shape, vocabulary)
    module = to_torch(model).eval()
    x = torch.from_numpy(samples.x)
    with torch.no_grad():
        expected = module(x.long() if vocabulary else x).numpy()
    found = GraphLearner(model).predict(samples.x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "shape", "vocabulary"), CASES)
def test_backends_train_alike(name: str, shape: tuple[int, ...], vocabulary: int | None) -> None:
    model, samples = model_and_samples(name, shape, vocabulary)
    active = NeuronSet.draw(ModelSpec.of(model.graph), 0.5, stream(1, NEURONS))
    batches = [np.arange(EXAMPLES, dtype=np.int32)] * 2
    losses = []
    for backend in ("native", "reference"):
        learner = GraphLearner(model, backend=backend)
        losses += [learner.fit(samples, batches, SGD(0.01), FitOptions(active)).loss_sum]
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_inputs_of_any_scale_are_learnt() -> None:
    """Columns of 1e-1 and of 1e5, which a model without a norm before its first layer would not learn together."""
    random_stream = np.random.default_rng(4)
    y = random_stream.integers(0, 2, 200).astype(np.int32)
    x = np.stack([random_stream.normal(y, 0.3) * 1e-1, random_stream.normal(0, 1, 200) * 1e5], axis=1).astype(
        np.float32
    )
    graph = architectures.build("mlp", (2,), 2)
    learner = GraphLearner(Model(graph, graph.init(stream(1, INIT))))
    rows = np.arange(200, dtype=np.int32)
    learner.fit(Samples(x, y), [rows[i : i + 20] for i in range(0, 200, 20)] * 10, SGD(0.05))
    assert learner.evaluate(Samples(x, y), rows).correct >= 180


def test_other_shapes_are_refused() -> None:
    with pytest.raises(GraphError, match=r"model mlp for examples of shape \(3, 8, 8\); expected features"):
        architectures.build("mlp", (3, 8, 8), 2)
    with pytest.raises(GraphError, match="model text_cnn for data without a vocabulary"):
        architectures.build("text_cnn", (8,), 2)
