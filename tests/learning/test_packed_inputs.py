"""Models with several inputs, which lie side by side in one array: id columns of tables, numbers and sequences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from edgefl.errors import DataError, GraphError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.input_ids import IdValues, id_values, with_ids
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import Concat, Conv1d, Embedding, Flatten, GlobalAvgPool, InputPart, Linear, ReLU
from edgefl.torch import from_torch
from edgefl.torch.graph_module import to_torch

from . import oracle
from .graphs import model

ROWS = np.arange(6, dtype=np.int32)


def _graph() -> Graph:
    """A user, two tags, four numbers and a sequence of two channels and two steps, of which the first two are ids."""
    nodes = (
        Node("user", InputPart(0, (1,)), (INPUT,)),
        Node("users", Embedding(5, 3), ("user",)),
        Node("user_flat", Flatten(), ("users",)),
        Node("tags", InputPart(1, (2,)), (INPUT,)),
        Node("tag_table", Embedding(7, 3), ("tags",)),
        Node("tag_mean", GlobalAvgPool(), ("tag_table",)),
        Node("tag_flat", Flatten(), ("tag_mean",)),
        Node("numbers", InputPart(3, (4,)), (INPUT,)),
        Node("fc", Linear(4, 3), ("numbers",)),
        Node("relu", ReLU(), ("fc",)),
        Node("steps", InputPart(7, (2, 2)), (INPUT,)),
        Node("conv", Conv1d(2, 3, 2), ("steps",)),
        Node("conv_flat", Flatten(), ("conv",)),
        Node("all", Concat(), ("user_flat", "tag_flat", "relu", "conv_flat")),
        Node("head", Linear(12, 4), ("all",)),
    )
    return Graph((11,), nodes)


class Several(nn.Module):
    """A torch module that computes the model of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.tag_table = nn.Embedding(5, 3), nn.Embedding(7, 3)
        self.fc, self.conv, self.head = nn.Linear(4, 3), nn.Conv1d(2, 3, 2), nn.Linear(12, 4)

    def forward(self, user: torch.Tensor, tags: torch.Tensor, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        parts = self.users(user), self.tag_table(tags).mean(1), self.fc(x).relu(), self.conv(steps).flatten(1)
        result: torch.Tensor = self.head(torch.cat(parts, 1))
        return result


def _samples(dtype: type = np.float64) -> Samples:
    x = with_ids(_graph(), np.random.default_rng(0).standard_normal((6, 11)).astype(np.float32))
    return Samples(x.astype(dtype), np.array([0, 1, 2, 3, 0, 1], np.int32))


def test_the_ids_of_the_input_are_known() -> None:
    assert id_values(_graph()) == (IdValues(0, 1, 5), IdValues(1, 3, 7))
    assert _graph().vocabulary is None
    assert with_ids(_graph(), np.full((1, 11), -0.128)).tolist() == [[2, 5, 5, *[-0.128] * 8]]  # 12 % 5 and 12 % 7
    assert loads(dumps(_graph())) == _graph()


def test_outputs_and_gradients_are_those_of_a_module_with_several_inputs() -> None:
    given, data = model(_graph()), _samples()
    learner, module = GraphLearner(given, "reference", np.float64), Several().double()
    module.load_state_dict({name: torch.tensor(value) for name, value in given.params.items()})
    x = torch.tensor(data.x)
    outputs = module(x[:, 0].long(), x[:, 1:3].long(), x[:, 3:7], x[:, 7:].reshape(6, 2, 2))
    np.testing.assert_allclose(learner.predict(data.x), outputs.detach().numpy(), rtol=1e-12)
    nn.functional.cross_entropy(outputs, torch.tensor(data.y).long()).backward()
    found = learner.gradient(data, ROWS)
    for name, value in module.named_parameters():
        assert value.grad is not None
        np.testing.assert_allclose(found[name], value.grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
def test_every_backend_takes_the_steps_of_torch(backend: str) -> None:
    given, data = model(_graph()), _samples(np.float32)
    learner = GraphLearner(given, backend)
    expected, _ = oracle.train(given.graph, given.params, data, [ROWS, ROWS[:3]], SGD(0.1))
    learner.fit(data, [ROWS, ROWS[:3]], SGD(0.1))
    for name, value in expected.items():
        np.testing.assert_allclose(learner.read()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_the_way_to_torch_and_back_keeps_the_graph() -> None:
    given = model(_graph())
    again = from_torch(to_torch(given), torch.tensor(_samples(np.float32).x))
    assert again.graph == given.graph


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((0, 5.0), "id 5 in sample 0, value 0; expected whole numbers from 0 to 4"),
        ((2, 0.5), r"id 0.5 in sample 0, value 2; expected whole numbers from 0 to 6"),
    ],
)
def test_ids_without_a_row_are_refused_by_their_place(value: tuple[int, float], message: str) -> None:
    data = _samples(np.float32)
    data.x[0, value[0]] = value[1]
    with pytest.raises(DataError, match=message):
        GraphLearner(model(_graph())).fit(data, [ROWS], SGD(0.1))


def test_ids_are_judged_after_scale_and_shift() -> None:
    data = _samples(np.float32)
    data.x[:, :3] = 0
    data.x[4, 0] = 2
    with pytest.raises(DataError, match="id 5 in sample 4, value 0; expected whole numbers from 0 to 4"):
        GraphLearner(model(_graph())).fit(replace(data, scale=2.0, shift=1.0), [ROWS], SGD(0.1))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((Node("part", InputPart(9, (3,)), (INPUT,)),), r"start=9, shape=\(3,\); expected values of an input of shape"),
        ((Node("fc", Linear(11, 4), (INPUT,)), Node("part", InputPart(0, (2,)), ("fc",))), "a part of 'fc'; expected"),
        ((Node("fc", Linear(11, 4), (INPUT,)), Node("emb", Embedding(5, 3), ("fc",))), "ids from 'fc'; expected ids"),
    ],
)
def test_parts_that_do_not_fit_are_refused(nodes: tuple[Node, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph((11,), nodes)
