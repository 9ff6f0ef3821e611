"""Nodes whose parameters have full names of their own: names that do not follow from the name of the node."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from edgefl.errors import GraphError
from edgefl.learning.learner import Samples
from edgefl.learning.running.graph_learner import GraphLearner
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import AddParameter, BatchNorm2d, Conv2d, Flatten, Linear, ReLU
from edgefl.torch.graph_module import to_torch

NAMES = ["b-1", "head.w", "l.bias", "my.kernel", "norm.gain", "norm.offset", "norm.running_mean", "norm.running_var"]


def _graph() -> Graph:
    nodes = (
        Node("c", Conv2d(1, 4, (3, 3)), ("input",), (("bias", "b-1"), ("weight", "my.kernel"))),
        Node("norm", BatchNorm2d(4), ("c",), (("bias", "norm.offset"), ("weight", "norm.gain"))),
        Node("r", ReLU(), ("norm",)),
        Node("f", Flatten(), ("r",)),
        Node("s", AddParameter((16,)), ("f",), (("", "pos"),)),
        Node("l", Linear(16, 3), ("s",), (("weight", "head.w"),)),
    )
    return Graph((1, 4, 4), nodes)


def _model() -> Model:
    graph, draw = _graph(), np.random.default_rng(0)
    return Model(graph, {n: draw.uniform(0.1, 1, i.shape).astype("f4") for n, i in graph.parameters().items()})


def test_parameters_have_their_own_names() -> None:
    assert sorted(_graph().parameters()) == [*NAMES, "pos"]
    assert _graph().nodes[0].full_name("weight") == "my.kernel"


def test_json_keeps_the_names() -> None:
    text = dumps(_graph())
    assert '"parameters":{"bias":"b-1","weight":"my.kernel"}' in text
    assert loads(text) == _graph()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ((("kernel", "w"),), r"names for the parameters \['kernel'\]; expected some of \['bias', 'weight'\]"),
        ((("weight", "w"), ("bias", "b")), r"\['weight', 'bias'\]; expected some of \['bias', 'weight'\], in this"),
        ((("weight", "a b"),), "parameter name 'a b'; expected letters, digits, _, - and inner dots"),
        ((("weight", "fc.bias"),), "'weight' and 'bias' both have the name 'fc.bias'; expected different names"),
    ],
)
def test_wrong_names_are_refused(named: tuple[tuple[str, str], ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph((4,), (Node("fc", Linear(4, 2), ("input",), named),))


def test_gradients_and_outputs_agree_with_torch_in_float64() -> None:
    model = _model()
    twin = copy.deepcopy(to_torch(model)).double()
    assert sorted(name for name in twin.state_dict() if "num_batches" not in name) == [*NAMES, "pos"]
    draw = np.random.default_rng(1)
    x, y = draw.normal(size=(4, 1, 4, 4)).astype("f4"), np.array([0, 1, 2, 0], np.int32)
    found = GraphLearner(model).gradient(Samples(x, y), np.arange(4, dtype=np.int32))
    torch.nn.functional.cross_entropy(twin(torch.tensor(x).double()), torch.tensor(y).long()).backward()
    for name, value in twin.named_parameters():
        assert value.grad is not None
        np.testing.assert_allclose(found[name].reshape(value.shape), value.grad.numpy(), atol=2e-6, err_msg=name)
