"""Noise and factors that act in training: numbers by hand, steps beside torch's, and what evaluation does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgefl.errors import TrainingError
from edgefl.kernels.reference.dropout import words
from edgefl.learning import GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.losses import MSE
from edgefl.learning.lowering.training_alone import ANGLES
from edgefl.learning.optimizers import SGD
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.cuts import cuts
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import Add, GaussianNoise, Linear, Mul, Scaler
from edgefl.torch import TorchLearner

KEY, COUNT = 9, 70
X = np.random.default_rng(3).standard_normal((COUNT, 3)).astype(np.float32)
Y = np.random.default_rng(4).standard_normal((COUNT, 4)).astype(np.float32)
ROWS = np.arange(COUNT, dtype=np.int32)


def autoencoder(in_evaluation: bool = False) -> Model:
    """y = mean + noise spread, where mean and spread are Linear layers. The noise is node 2."""
    nodes = (
        Node("mean", Linear(3, 4), (INPUT,)),
        Node("spread", Linear(3, 4), (INPUT,)),
        Node("noise", GaussianNoise(in_evaluation), ("mean",)),
        Node("moved", Mul(), ("noise", "spread")),
        Node("drawn", Add(), ("mean", "moved")),
    )
    graph = loads(dumps(Graph((3,), nodes)))
    drawn = np.random.default_rng(5)
    return Model(graph, {name: drawn.standard_normal(info.shape).astype(np.float32)
                         for name, info in graph.parameters().items()})  # fmt: skip


def numbers(key: int, step: int = 0) -> np.ndarray:
    """Return the noise [samples, 4] of node 2 in float64: two words of Philox make a number of Box and Muller."""
    state = np.array([key, step, 0], np.int64)
    lengths, angles = ((2 * (words(state, node, COUNT, 4) // 512) + 1) / 2**24 for node in (2, 2 + ANGLES))
    return np.sqrt(-2 * np.log(lengths)) * np.cos(2 * np.pi * angles)


def test_the_numbers_are_standard_normal() -> None:
    state = np.array([KEY, 0, 0], np.int64)
    lengths, angles = ((2 * (words(state, node, 500, 400) // 512) + 1) / 2**24 for node in (2, 2 + ANGLES))
    drawn = np.sqrt(-2 * np.log(lengths)) * np.cos(2 * np.pi * angles)
    moments = [float((drawn**power).mean()) for power in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.05)  # 200,000 numbers: 5 deviations are 0.011 to 0.11


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_gradients_are_torchs_with_the_same_noise(backend: str) -> None:
    model, values = autoencoder(), {}
    for name, value in model.params.items():
        values[name] = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    x, noise = torch.tensor(X).double(), torch.tensor(numbers(KEY))
    mean, spread = (x @ values[f"{name}.weight"].T + values[f"{name}.bias"] for name in ("mean", "spread"))
    torch.nn.functional.mse_loss(mean + noise * spread, torch.tensor(Y).double()).backward()
    learner, samples = GraphLearner(model, backend), Samples(X, Y, loss=MSE())
    for chunk in (None, 32):  # the noise of a sample does not depend on its chunk
        found = learner.gradient(samples, ROWS, chunk=chunk, key=KEY)
        for name, value in values.items():
            assert value.grad is not None
            np.testing.assert_allclose(found[name], value.grad.numpy(), rtol=2e-5, atol=2e-6, err_msg=name)


def test_both_learners_draw_the_same_noise_in_every_step() -> None:
    samples, batches = Samples(X, Y, loss=MSE()), Listed([ROWS] * 3, Keyed(KEY))
    native, by_torch = GraphLearner(autoencoder()), TorchLearner(autoencoder())
    for learner in (native, by_torch):
        learner.fit(samples, batches, SGD(0.1))
    for name, value in native.read().items():
        np.testing.assert_allclose(by_torch.read()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    with pytest.raises(TrainingError, match=r"training with dropout \(noise\) and no key"):
        native.fit(samples, [ROWS], SGD(0.1))


def test_evaluation_draws_nothing_or_the_numbers_of_key_0() -> None:
    params = autoencoder().params
    mean, spread = (X @ params[f"{name}.weight"].T + params[f"{name}.bias"] for name in ("mean", "spread"))
    np.testing.assert_allclose(GraphLearner(autoencoder()).predict(X), mean, rtol=1e-5, atol=1e-6)
    drawing, samples = GraphLearner(autoencoder(True)), Samples(X, Y, loss=MSE())
    drawn = mean + numbers(0) * spread
    np.testing.assert_allclose(drawing.predict(X), drawn, rtol=1e-5, atol=2e-5)
    drawing.gradient(samples, ROWS, key=KEY)
    in_chunks = drawing.features(samples, ROWS, 7, "drawn")
    np.testing.assert_allclose(in_chunks, drawing.predict(X), rtol=1e-5, atol=1e-6)


def test_a_scaler_acts_in_training_alone_and_is_not_crossed_by_a_cut() -> None:
    nodes = (Node("fc", Linear(3, 4), (INPUT,)), Node("scaled", Scaler(2.0), ("fc",)),
             Node("head", Linear(4, 4), ("scaled",)))  # fmt: skip
    graph = loads(dumps(Graph((3,), nodes)))
    params = {"fc.weight": Y[:4, :3].copy(), "fc.bias": Y[4].copy(), "head.weight": np.eye(4, dtype=np.float32),
              "head.bias": np.zeros(4, np.float32)}  # fmt: skip
    result = X @ params["fc.weight"].T + params["fc.bias"]
    learner = GraphLearner(Model(graph, params))
    np.testing.assert_allclose(learner.predict(X), result, rtol=1e-5, atol=1e-6)
    found = learner.gradient(Samples(X, Y, loss=MSE()), ROWS)
    error = 2 * (2 * result - Y) / Y.size
    np.testing.assert_allclose(found["head.bias"], error.sum(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["fc.bias"], 2 * error.sum(0), rtol=1e-4, atol=1e-6)
    assert cuts(graph) == ("fc",)
