"""The accounts of training at a mask: what is planned is what a learner holds, and it grows with the density."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.cli.cli import main
from edgefl.errors import MemoryLimitError
from edgefl.learning import SGD, Adam, GraphLearner, Samples
from edgefl.learning.lowering import sparse_weight
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, best, estimate, fit
from edgefl.learning.memory.mask_memory import SEED, _made
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.neurons.density import counts, weights
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.random_mask import random_mask
from edgefl.rng import INIT, stream

DENSITIES = (0.5, 0.1)


@pytest.fixture(params=["values", "dense"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All masked weights as values alone, or none of them."""
    monkeypatch.setattr(sparse_weight, "runs_sparse", lambda weight, ops: request.param == "values")
    _made.cache_clear()
    return str(request.param)


def data(graph: Graph, count: int) -> Samples:
    draw = np.random.default_rng(1)
    return Samples(draw.standard_normal((count, *graph.input_shape)).astype(np.float32), np.zeros(count, np.int32))


def trained(graph: Graph, training: TrainingConfiguration, examples: int, limit: int | None = None) -> GraphLearner:
    learner = GraphLearner(Model(graph, graph.init(stream(1, INIT))), limit_bytes=limit)
    if training.keep < 1:
        learner.restrict(random_mask(learner.spec, training.keep, "erk", SEED), training.batch)
    order = np.arange(examples, dtype=np.int32)
    sgd = Adam(0.01) if training.terms.adam else SGD(0.01, momentum=0.9 if training.terms.momentum else 0.0)
    learner.fit(data(graph, examples), [order[: training.batch], order[training.batch :]], sgd)
    return learner


def test_planned_is_what_a_learner_holds(way: str) -> None:
    for name, shape in {"fedspu_emnist": (1, 28, 28), "lenet5": (1, 28, 28), "pflego_mlp": (1, 8, 8)}.items():
        graph = architectures.build(name, shape, 10)
        for density in (*DENSITIES, 1.0):
            for terms in (Terms(), Terms(momentum=True), Terms(adam=True)):
                training = TrainingConfiguration(name, graph, 4, "sparse", density, examples=7, terms=terms)
                learner, footprint = trained(graph, training, 7), estimate("exact", training)
                held, planned = learner.memory(), dict(footprint.parts)
                del held["scratch"], planned["scratch"]
                assert held == planned, (name, density, terms)
                assert footprint.flops is not None
                assert 4 * learner.work().training == 7 * footprint.flops, (name, density, terms)


def test_no_dense_weight_nor_gradient_is_held() -> None:
    """For weights held as values, with momentum, there are values, gradient, velocity and transposed values."""
    graph = architectures.build("lenet5", (1, 28, 28), 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_weight, "runs_sparse", lambda weight, ops: True)
        _made.cache_clear()
        found = estimate("exact", TrainingConfiguration("lenet5", graph, 4, "sparse", 0.1, terms=Terms(momentum=True)))
    _made.cache_clear()
    ones = counts(weights(ModelSpec.of(graph)), 0.1, "erk")
    largest = max(ones.values())
    assert max(tensor.bytes for tensor in found.tensors if tensor.argument in ("gradients", "values_t")) == 4 * largest
    assert found.parts["params"] < 4 * sum(ones.values()) + 8192
    assert found.parts["states"] < 4 * sum(ones.values()) + 8192
    dense = estimate("exact", TrainingConfiguration("lenet5", graph, 4, "full", terms=Terms(momentum=True)))
    assert found.total < 0.6 * dense.total


def test_what_fit_chooses_runs_and_a_far_larger_batch_is_refused(way: str) -> None:
    graph = architectures.build("fedspu_emnist", (1, 28, 28), 62)
    limit = estimate("exact", TrainingConfiguration("emnist", graph, 16, "sparse", 0.1)).total
    chosen = best(fit(TrainingConfiguration("emnist", graph, 16, "sparse"), limit, DENSITIES), 16)
    assert chosen is not None
    assert chosen.batch >= 16
    training = TrainingConfiguration("emnist", graph, chosen.batch, "sparse", chosen.keep)
    trained(graph, training, 2 * chosen.batch - 1, limit)
    larger = TrainingConfiguration("emnist", graph, 3 * chosen.batch, "sparse", chosen.keep)
    with pytest.raises(MemoryLimitError, match=f"limit_bytes={limit}"):
        trained(graph, larger, 6 * chosen.batch - 1, limit)


def test_the_command_takes_densities(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "fedspu_emnist", "--density", ".5,.1", "--account", "paper,exact"]) == 0
    shown = capsys.readouterr().out
    assert "sparse 0.5" in shown
    assert "sparse 0.1" in shown
    assert "MFLOP: of a step of the account exact, as executed on" in shown
    assert main(["memory", "fedspu_emnist", "--density", ".5", "--keep", ".2"]) != 0
    assert main(["memory", "fedspu_emnist", "--density", ".5", "--method", "drop"]) != 0
