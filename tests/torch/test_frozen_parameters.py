"""requires_grad and the mode of a BatchNorm, from a torch module into a graph, a learner, and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import edgefl
from edgefl.errors import EdgeflError
from edgefl.learning import SGD, Samples
from edgefl.torch import TorchLearner, from_torch, to_torch


def net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )  # fmt: skip


STATISTICS = {"1.running_mean", "1.running_var"}
X = torch.zeros(2, 2, 4, 4)


def _layer(module: nn.Sequential) -> None:
    module[0].requires_grad_(False)


def _bias(module: nn.Sequential) -> None:
    module[4].bias.requires_grad_(False)


def _norm(module: nn.Sequential) -> None:
    module[1].requires_grad_(False)


def _norm_mode(module: nn.Sequential) -> None:
    module[1].eval()


def _whole_mode(module: nn.Sequential) -> None:
    module.eval()


CASES: list[tuple[Callable[[nn.Sequential], None], set[str]]] = [
    (lambda module: None, set()),
    (_layer, {"0.weight", "0.bias"}),
    (_bias, {"4.bias"}),
    (_norm, {"1.weight", "1.bias"}),  # its statistics move, as in torch
    (_norm_mode, STATISTICS),
    (_whole_mode, set()),  # which says nothing about one layer
]


@pytest.mark.parametrize(("change", "frozen"), CASES)
def test_what_a_module_keeps_still_is_frozen_in_its_graph_and_back(
    change: Callable[[nn.Sequential], None], frozen: set[str]
) -> None:
    module = net()
    change(module)
    modes = [part.training for part in module.modules()]
    model = from_torch(module, X)
    assert model.graph.frozen == frozen
    assert [part.training for part in module.modules()] == modes
    back = to_torch(model).train()
    assert {name for name, value in back.named_parameters() if not value.requires_grad} == frozen - STATISTICS
    assert back.get_submodule("1").training is not (frozen == STATISTICS)
    assert from_torch(back, X).graph.frozen == frozen


@pytest.mark.parametrize("is_own", [True, False])
def test_a_torch_learner_keeps_what_its_module_freezes(is_own: bool) -> None:
    """The module is the graph's form or the user's own, after fit, gradient and evaluation."""
    module = net()
    _layer(module)
    _norm_mode(module)
    model = from_torch(module, X)
    learner = TorchLearner(model, None if is_own else module)
    rows = np.arange(6, dtype=np.int32)
    data = Samples(np.random.default_rng(1).normal(size=(6, 2, 4, 4)).astype(np.float32), rows % 3)
    learner.evaluate(data)
    learner.fit(data, [rows[:3], rows[3:]], SGD(0.1, momentum=0.9, weight_decay=0.1))
    assert set(learner.gradient(data, rows)) == {"1.weight", "1.bias", "4.weight", "4.bias"}
    for name, value in learner.read().items():
        assert np.array_equal(value, model.params[name]) is (name in model.graph.frozen), name


def _data() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(2).normal(size=(60, 2, 4, 4)).astype(np.float32), np.arange(60) % 3


def test_simulate_trains_what_the_module_says_and_exports_it(tmp_path) -> None:
    module = net()
    _layer(module)
    given = {"axes": "NCHW", "rounds": 2, "clients": 2, "directory": tmp_path / "run", "progress": False, "epochs": 1}
    run = edgefl.simulate("fedspu", data=_data(), model=module, keep=1, **given)
    run.clients[0].model.save(tmp_path / "client.pt")
    found = torch.load(tmp_path / "client.pt")
    assert torch.equal(found["0.weight"], module[0].weight)
    assert not torch.equal(found["4.weight"], module[4].weight)


def test_a_model_of_which_nothing_is_trained_is_refused_before_a_run_directory_is_made(tmp_path) -> None:
    module = net().requires_grad_(False)
    _norm_mode(module)
    with pytest.raises(
        (EdgeflError, ValueError), match="all 8 parameters of the model are frozen; expected at least one"
    ):
        edgefl.simulate(
            "fedavg", data=_data(), axes="NCHW", model=module, clients=2, rounds=1, directory=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()
