"""A frozen weight that a model keeps transposed: no pass turns it, and gradients and outputs stay torch's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import GraphLearner
from edgefl.learning.lowering.lower import lower
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.computed_parameters import ComputedParameter, TransposedMatrix
from edgefl.models.graph.operations import Conv1d, Flatten, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec

from . import oracle
from .graphs import samples

ROWS = np.arange(6, dtype=np.int32)
TURNED = ("places.weight", "features.weight")
GRAPH = Graph(
    (3, 4),
    (
        Node("first", Conv1d(3, 6, 1), (INPUT,)),
        Node("places", Linear(6, 5), ("first",), (("weight", "places.turned"),)),
        Node("relu", ReLU(), ("places",)),
        Node("flat", Flatten(), ("relu",)),
        Node("features", Linear(20, 7), ("flat",), (("weight", "features.turned"),)),
        Node("fc", Linear(7, 5, bias=False), ("features",)),
    ),
    computed=(
        ComputedParameter("places.turned", TransposedMatrix(6, 5), ("places.weight",)),
        ComputedParameter("features.turned", TransposedMatrix(20, 7), ("features.weight",)),
    ),
)
FROZEN = frozenset({*TURNED, "places.bias", "features.bias"})


def _model(frozen: frozenset[str]) -> Model:
    graph = replace(GRAPH, frozen=frozen)
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


def _turns(frozen: frozenset[str]) -> int:
    graph = _model(frozen).graph
    schedule = lower(graph, ModelSpec.of(graph), 6, None)
    return sum(call.op == "transpose" for call in schedule.calls)


@pytest.mark.parametrize(
    ("frozen", "turns"),
    [(FROZEN, 0), (FROZEN - {"places.bias"}, 1), (FROZEN - {TURNED[1]}, 2), (frozenset(), 4)],
    ids=["all", "a trained bias", "a trained weight", "nothing"],
)
def test_only_weights_of_frozen_layers_are_not_turned(frozen: frozenset[str], turns: int) -> None:
    assert _turns(frozen) == turns


@pytest.mark.parametrize("frozen", [FROZEN, FROZEN - {"places.bias"}], ids=["all", "a trained bias"])
def test_gradients_are_torchs_in_float64(frozen: frozenset[str]) -> None:
    model = _model(frozen)
    learner, data = GraphLearner(model, "reference", np.float64), samples(model.graph, len(ROWS), dtype=np.float64)
    expected = oracle.gradients(model.graph, dict(learner.read()), data.x, data.y)
    found = learner.gradient(data, ROWS)
    assert found.keys() == set(learner.spec.learned)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("backend", ["native", "numba"])
def test_outputs_and_gradients_are_the_references(backend: str) -> None:
    found, expected = (GraphLearner(_model(FROZEN), each) for each in (backend, "reference"))
    data = samples(found.graph, len(ROWS))
    np.testing.assert_allclose(found.predict(data.x), expected.predict(data.x), rtol=1e-5, atol=1e-6)
    gradients = expected.gradient(data, ROWS)
    for name, value in found.gradient(data, ROWS).items():
        np.testing.assert_allclose(value, gradients[name], rtol=1e-4, atol=1e-6, err_msg=name)
