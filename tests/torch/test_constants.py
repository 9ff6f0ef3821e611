"""Numbers and buffers of a module's code: they are constants of its graph, and no training moves them, as in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

import edgefl
from edgefl.errors import GraphError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.models.neurons.trained_part import with_trained
from edgefl.torch import TorchLearner, from_torch, to_torch

X = torch.zeros(2, 1, 6, 6)
CONSTANTS = {"constant-add", "constant-mul", "constant-mul_2", "scale", "fixed"}
PARAMETERS = {"conv.weight", "conv.bias", "fc.weight", "fc.bias"}


class Scaled(nn.Module):
    """Two numbers before a convolution, a buffer behind it, and a buffer and a number behind the head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.fc = nn.Conv2d(1, 3, 3), nn.Linear(3, 4)
        self.register_buffer("scale", torch.tensor([1.5, 0.5, 2.0]).reshape(3, 1, 1))
        self.register_buffer("fixed", torch.rand(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv((x - 0.449) / 0.226)) * self.scale
        return F.linear(self.fc(x.mean((2, 3))), self.fixed) * 2


class FixedWeight(nn.Module):
    """A Linear layer whose weight is a buffer, which torch.fx converts, too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 2)
        values = self.a.weight.detach()
        del self.a.weight
        self.a.register_buffer("weight", values)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


@pytest.fixture(scope="module")
def model() -> Model:
    return from_torch(Scaled(), X)


def test_numbers_and_buffers_are_constants(model: Model) -> None:
    assert model.graph.constants == model.graph.frozen == CONSTANTS
    assert from_torch(to_torch(model), X).graph.constants == CONSTANTS


@pytest.mark.parametrize(
    ("text", "trained"),
    [("*", PARAMETERS), ("-fc.*", {"conv.weight", "conv.bias"}), ("*,-constant-*", PARAMETERS),
     ("-head", PARAMETERS), ("last:1", {"fc.weight", "fc.bias"})],
)  # fmt: skip
def test_patterns_train_parameters_alone(model: Model, text: str, trained: set[str]) -> None:
    assert set(model.params) - with_trained(model.graph, text).frozen == trained


@pytest.mark.parametrize("name", ["scale", "constant-mul", "constant-*"])
def test_a_constant_is_refused_by_its_name(model: Model, name: str) -> None:
    with pytest.raises(GraphError, match="a constant or buffer of the model's code, which is never trained"):
        with_trained(model.graph, name)


def test_a_buffer_in_a_weights_place_is_constant() -> None:
    model = from_torch(FixedWeight(), torch.zeros(2, 3))
    assert model.graph.constants == {"a.weight"}
    assert set(model.params) - with_trained(model.graph, "*").frozen == {"a.bias", "b.weight", "b.bias"}


def test_a_parameter_that_the_module_froze_is_not_a_constant() -> None:
    module = Scaled()
    module.conv.requires_grad_(False)
    graph = from_torch(module, X).graph
    assert graph.constants == CONSTANTS and graph.frozen == CONSTANTS | {"conv.weight", "conv.bias"}
    assert set(graph.parameters()) - with_trained(graph, "*").frozen == PARAMETERS


@pytest.mark.parametrize("learner_of", [GraphLearner, TorchLearner])
def test_constants_keep_their_bits_in_training_under_every_pattern(model: Model, learner_of: type) -> None:
    whole = model._replace(graph=with_trained(model.graph, "*"))
    learner = learner_of(whole)
    rows = np.arange(8, dtype=np.int32)
    x = np.random.default_rng(1).normal(size=(8, 1, 6, 6)).astype(np.float32)
    learner.fit(Samples(x, rows % 4), [rows[:4], rows[4:]], SGD(0.01, momentum=0.9, weight_decay=0.1))
    moved = {name for name, value in learner.read().items() if not np.array_equal(value, model.params[name])}
    assert moved == PARAMETERS


def test_a_simulation_of_everything_gives_the_module_its_buffers_back(tmp_path) -> None:
    module = Scaled()
    x, y = np.random.default_rng(2).normal(size=(60, 1, 6, 6)).astype(np.float32), np.arange(60) % 4
    run = edgefl.simulate(
        "fedavg", data=(x, y), axes="NCHW", model=module, train="*", lr=0.01, rounds=1, clients=2,
        directory=tmp_path / "run", progress=False,
    )  # fmt: skip
    run.methods["fedavg"].model.save(tmp_path / "model.pt")
    found = torch.load(tmp_path / "model.pt")
    assert found.keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():
        assert torch.equal(found[name], value) is (name in CONSTANTS), name
