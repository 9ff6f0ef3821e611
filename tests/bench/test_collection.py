"""The collection of models that people bring: models that are taken are right, and the check sees what is wrong.

The models here need torch alone. tests/bench/test_whole_collection.py checks all models.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bench.collection import catalog, checking, conversion, oracle, record, speed
from bench.collection.entry import Entry, values
from edgefl.models.graph import Model
from edgefl.torch import from_torch

torch.set_num_threads(1)  # the models are small

BY_NAME = {entry.name: entry for entry in catalog.ALL}
QUICK = ("pfllib/textcnn", "flower/statavg_mlp", "own/tcn", "own/tabular_resnet", "own/gru")


def test_every_model_has_a_name_of_its_own_and_a_source() -> None:
    assert len(BY_NAME) == len(catalog.ALL) >= 118
    assert {entry.source for entry in catalog.ALL} == {*catalog.PACKAGES, "pfllib", "flower", "own"}


@pytest.mark.parametrize("name", QUICK)
def test_outputs_and_steps_are_those_of_torch(name: str) -> None:
    verdicts = list(checking.check(BY_NAME[name]))
    assert {each.case: each.wrong for each in verdicts if each.wrong} == {}
    assert {"randomness", "outputs", "half frozen p=0.4 adam"} <= {each.case for each in verdicts}


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


SMALL = Entry("own/small", small, values(4))


def _other_weight(model: Model) -> Model:
    params = {**model.params, "0.weight": model.params["0.weight"] * np.float32(1.0001)}
    return Model(model.graph, params)


def _other_graph(model: Model) -> Model:
    return Model(replace(model.graph, frozen=frozenset({"2.bias"})), model.params)


@pytest.mark.parametrize(
    ("change", "case", "message"),
    [
        (_other_weight, "outputs", "error"),
        (_other_weight, "all trained p=1 sgd", "error"),
        (_other_graph, "all trained p=1 sgd", "2.bias has a gradient in torch and is not trained by edgefl"),
    ],
)
def test_a_wrong_conversion_is_seen(change, case: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(module: nn.Module, example: tuple[Tensor, ...]) -> conversion.Outcome:
        return conversion.Outcome(change(from_torch(module, example[0])), "", 0.0)

    monkeypatch.setattr(checking, "converted", wrong)
    found = {each.case: each.wrong for each in checking.check(SMALL, ("all trained",))}
    assert found[case].startswith(message)


def test_dropout_that_a_graph_lacks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(module: nn.Module, example: tuple[Tensor, ...]) -> conversion.Outcome:
        return conversion.Outcome(from_torch(small(), example[0]), "", 0.0)

    monkeypatch.setattr(checking, "converted", without)
    dropping = Entry("own/dropping", lambda: nn.Sequential(small(), nn.Dropout(0.5)), values(4))
    assert next(checking.check(dropping)).wrong == "training is random in torch, in edgefl the contrary"


def test_the_oracle_by_hand() -> None:
    """One weight w = 2, input 3, target 0: loss 36, gradient 2 * 6 * 3 = 36."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 2.0)
    entry = Entry("own/one", lambda: module, values(1), "values")
    found = oracle.trained_pass(module, entry, (torch.tensor([[3.0]]),), torch.zeros(1, 1), torch.float64)
    assert found.gradients["weight"] == 36.0
    assert oracle.sgd(found.gradients["weight"], 0.5) == -18.0
    assert oracle.adam(found.gradients["weight"], 0.5, 4.0) == -0.5 * 36 / 40
    assert oracle.scale_of(found.gradients) == 32.0


@pytest.mark.parametrize(
    ("part", "trained"),
    [
        ("all", {"0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"}),
        ("last blocks", {"3.weight", "3.bias"}),  # one of three layers
        ("head", {"3.weight", "3.bias"}),
        ("biases", {"0.bias", "1.bias", "3.bias"}),
    ],
)
def test_parts_that_are_trained(part: str, trained: set[str]) -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).train()
    found = speed.trained_alone(module, part)
    assert {name for name, value in found.named_parameters() if value.requires_grad} == trained
    assert found[1].training == ("1.bias" in trained)


def test_figures_of_a_model_by_hand() -> None:
    seconds = {"eager": 0.008, "channels_last": 0.006, "all": 0.002, "head": 0.001}
    found = speed.row("own/x", seconds, {"all": 100, "head": 40})
    assert (found["speed"], found["over_fastest"]) == (4.0, 3.0)
    assert found["parts"] == {"head": {"time": 0.5, "counted": 0.4}}
    assert found["slow"] == ["head"]  # 25 % more time than is counted


def test_a_record_keeps_what_a_later_run_does_not_measure(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    record.write([{"model": "own/b", "is_trained": True, "speed": 3.0}], ["own/a", "own/b"], file)
    record.write(
        [{"model": "own/b", "is_trained": True}, {"model": "own/a", "is_trained": False}], ["own/a", "own/b"], file
    )
    assert list(record.read(file)) == ["own/a", "own/b"]
    assert record.read(file)["own/b"]["speed"] == 3.0
    assert record.taken(file) == {"own/b"}


def test_a_record_keeps_the_largest_errors() -> None:
    def row(case: str, ours: float, torch32: float, wrong: str = "") -> dict[str, object]:
        return {"case": case, "ours": ours, "torch32": torch32, "wrong": wrong}

    rows = [row("randomness", 1, 1), row("outputs", 1e-7, 2e-7), row("p=1", 3e-7, 1e-7), row("p=.4", 2e-7, 4e-7, "bad")]
    found = record.of_verdicts(rows)
    assert found["errors"] == {"outputs": [1e-7, 2e-7], "steps": [3e-7, 4e-7]}
    assert (found["compared"], found["wrong"]) == (3, ["p=.4: bad"])
