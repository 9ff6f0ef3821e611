"""Settings in the words of other programs, torch's optimizers and losses, and models to go on from: what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.errors import GraphError
from edgefl.experiment.settings import Experiment
from edgefl.methods import settings_of
from edgefl.study.words_of_others import HERE, check_optimizer, shown

torch = pytest.importorskip("torch", reason="the optimizers are torch's")
WEIGHTS = [torch.zeros(1, requires_grad=True)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_rounds": 3}, "num_rounds=3 is not a setting; here it is rounds"),
        ({"local_epochs": 2}, "local_epochs=2 is not a setting; here it is epochs"),
        ({"batch_size": 8}, "batch_size=8 is not a setting; here it is batch"),
        ({"learning_rate": 0.1}, "learning_rate=0.1 is not a setting; here it is lr"),
        ({"fraction_fit": 0.5}, "fraction_fit=0.5 is not a setting; here it is per_round, a number of clients"),
        ({"save_best": True}, "save_best=True is not a setting; here it is on_round, which sees every round"),
        (
            {"train_data": np.zeros((40, 3))},
            "train_data=array([[0., 0., 0.], [0., 0., 0.], [0., 0., 0.], [0., 0., 0.... is",
        ),
    ],
)
def test_a_setting_of_others_has_its_word_here(setting: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        edgefl.simulate("fedavg", directory=tmp_path / "run", **setting)
    assert str(error.value).startswith(message) and not (tmp_path / "run").exists()


def test_no_word_of_others_is_a_setting() -> None:
    known = {*vars(Experiment()), *settings_of("fedspu"), *settings_of("fedavg")}
    assert known.isdisjoint(HERE)
    assert {word.split(",")[0].split("=")[0] for word in HERE.values()} - {"on_round"} <= known
    assert "on_round" not in known  # an argument of its own


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.optim.SGD(WEIGHTS, 0.1), "optimizer is torch.optim.SGD; expected settings, as optimizer='sgd', lr=0.1"),
        (torch.optim.Adam, "optimizer is torch.optim.Adam; expected settings, as optimizer='adam'"),
        (
            torch.optim.SGD(WEIGHTS, 0.1, 0.9, nesterov=True),
            "optimizer is torch.optim.SGD; expected settings, as optimizer='sgd', lr=0.1, momentum=0.9, nesterov=True",
        ),
        (
            torch.optim.AdamW(WEIGHTS, 0.01, (0.8, 0.9)),
            "optimizer is torch.optim.AdamW; expected settings, as optimizer='adamw', lr=0.01, weight_decay=0.01, "
            "betas=(0.8, 0.9)",
        ),
        (torch.optim.RMSprop(WEIGHTS), "optimizer is torch.optim.RMSprop; expected one of sgd, adam, adamw"),
    ],
)
def test_an_optimizer_of_torch_is_told_as_settings(given: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        check_optimizer(given)
    assert str(error.value) == message


def test_a_value_takes_one_line() -> None:
    assert [shown(value) for value in (3, "a\nb", "x" * 70)] == ["3", "'a\\nb'", "'" + "x" * 59 + "..."]
    assert shown(torch.optim.SGD(WEIGHTS, 0.1)) == "SGD ( Parameter Group 0 dampening: 0 differentiable: False f..."


def test_a_head_of_some_classes_is_no_model_to_go_on_from(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.repeat([0, 1, 2], 20)
    given = {"data": (x, y, np.repeat([0, 1], 30)), "rounds": 1, "progress": False}
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    first = edgefl.simulate("fedper", directory=tmp_path / "first", model=model, **given)
    with pytest.raises(GraphError, match="has outputs only for the classes 0, 1; expected a model of all classes"):
        edgefl.simulate("fedavg", directory=tmp_path / "run", model=first.clients[0].model, **given)
    assert not (tmp_path / "run").exists()
