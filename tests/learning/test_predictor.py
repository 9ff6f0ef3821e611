"""The classes that a Predictor names, for outputs with and without places."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.learning.predictor import Predictor
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Conv1d, Permute

TOKENS = Graph((1, 3), (Node("conv", Conv1d(1, 2, 1), (INPUT,)),))
TURNED = Graph((1, 3), (*TOKENS.nodes, Node("turn", Permute((1, 0)), ("conv",))))
PARAMS = {"conv.weight": np.array([[[1.0]], [[-1.0]]], np.float32), "conv.bias": np.zeros(2, np.float32)}
X = np.array([[[3, -2, 1]], [[-1, -1, 5]]], np.float32)


@pytest.mark.parametrize("graph", [TOKENS, TURNED])
def test_each_token_has_the_class_of_its_largest_logit(graph: Graph) -> None:
    """Class 0 has x for a logit, and class 1 has -x. The graph says on which axis the classes lie."""
    model = Predictor.of(Model(graph, PARAMS), class_names=("plus", "minus"))
    assert model.labels(X).tolist() == [[0, 1, 0], [1, 1, 0]]
    assert model.label_names(X) == [["plus", "minus", "plus"], ["minus", "minus", "plus"]]
    assert Predictor.of(Model(graph, PARAMS), classes=(7, 9)).label_names(X)[0] == ["7", "9", "7"]


def test_a_caller_may_say_where_the_classes_lie() -> None:
    model = Predictor.of(Model(TURNED, PARAMS))
    model.class_axis = 1
    assert model.labels(X[:1]).tolist() == [[0, 1]]
