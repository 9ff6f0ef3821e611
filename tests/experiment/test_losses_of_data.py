"""Data with values in place of labels: read, partitioned, trained and reported with the loss that fits them, or
refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.cli.cli import main
from edgefl.errors import DataError, GraphError
from edgefl.experiment.assembly import assemble, check_begin
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.data.npz import read_npz
from edgefl.experiment.settings import Experiment
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Huber

DRAW = np.random.default_rng(3)
X = DRAW.standard_normal((60, 1, 1, 8)).astype(np.float32)
VALUES = (X[:, 0, 0] @ DRAW.standard_normal((8, 3))).astype(np.float64)


def saved(folder: Path, y: np.ndarray, **more: np.ndarray) -> str:
    folder.mkdir(exist_ok=True)
    np.savez(folder / "made.npz", x=X, y=y, **more)
    return str(folder / "made.npz")


def experiment(data: str, **settings: object) -> Experiment:
    wanted = {"partition": "iid", "model": "pflego_mlp", "clients": 3, "per_round": 2, "methods": ("fedavg",)}
    return Experiment(data=data, **{**wanted, **settings})  # type: ignore[arg-type]


def test_the_targets_decide_the_loss_and_the_outputs(tmp_path: Path) -> None:
    labels = (VALUES[:, 0] > 0).astype(np.int64)
    cases = [
        (labels, "", CrossEntropy(), (60,), 2),
        (VALUES, "", MSE(), (60, 3), 3),
        (VALUES[:, 0], "", MSE(), (60, 1), 1),
        (VALUES > 0, "", BinaryCrossEntropy(), (60, 3), 3),
        ((VALUES > 0).astype(np.uint8), "mse", MSE(), (60, 3), 3),
        (labels, "bce:pos_weight=2", BinaryCrossEntropy((2.0,)), (60, 1), 1),
        (labels, "huber:delta=2", Huber(2.0), (60, 1), 1),
        (VALUES, "huber", Huber(), (60, 3), 3),
        (labels, "cross-entropy:weight=1,3", CrossEntropy((1.0, 3.0)), (60,), 2),
    ]
    for y, loss, expected, shape, outputs in cases:
        found = assemble(experiment(saved(tmp_path, y), loss=loss))
        assert found.data.loss == expected
        assert found.data.y.shape == shape
        assert found.graph.output_shape == (outputs,)


def test_what_does_not_fit_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    hole = VALUES.copy()
    hole[7, 1] = np.nan
    cases = [
        (VALUES, {"loss": "cross-entropy"}, "targets of float32 and shape .*; expected labels, integers"),
        (VALUES, {"loss": "bce"}, "y goes from .*; expected targets from 0 to 1 for bce"),
        (VALUES > 0, {"loss": "bce:pos_weight=1,2"}, "2 numbers in pos_weight; expected 3"),
        (VALUES, {"partition": "dirichlet:1"}, "whose targets are values, not classes; expected iid"),
        (VALUES, {"partition": "classes:2", "partition_test": True}, "whose targets are values, not classes"),
        (hole, {}, r"y\[7, 1\] is nan; expected finite float32 values"),
        (VALUES[:50], {}, "y is float32"),
        (VALUES.reshape(60, 3, 1), {}, r"\(60, 3, 1\); expected float32 of shape \(60, 3\) for outputs \(3,\)"),
        (np.arange(60) % 3, {"loss": "cross-entropy:weight=1,2"}, "2 numbers in weight; expected 3"),
        (np.arange(60) % 3, {"loss": "bce"}, "y goes from 0 to 2; expected targets from 0 to 1"),
    ]
    for y, settings, message in cases:
        with pytest.raises((DataError, GraphError, ValueError), match=message):
            assemble(experiment(saved(tmp_path, y), **settings))
    with pytest.raises(ValueError, match="loss=mae; expected one of"):
        experiment("digits", loss="mae")


def test_methods_that_rest_on_decisions_say_so(tmp_path: Path) -> None:
    """Methods with personal heads do not: their heads have the outputs of the model."""
    federation = assemble(experiment(saved(tmp_path, VALUES)))
    check_begin(experiment("", methods=("pflego", "fedper", "fedrep", "fedrecon")).algorithms(), federation, 3)
    with pytest.raises(ValueError, match="subfedavg: loss=mse; expected a loss with right and wrong answers"):
        check_begin(experiment("", methods=("subfedavg",)).algorithms(), federation, 3)
    decided = assemble(experiment(saved(tmp_path, VALUES > 0)))
    check_begin(experiment("", methods=("subfedavg", "fedspa", "ditto")).algorithms(), decided, 3)


def test_a_share_has_the_targets_and_is_read_as_what_they_ask_for(tmp_path: Path) -> None:
    federation = assemble(experiment(saved(tmp_path, VALUES)))
    write_partition(partition_file(tmp_path, 1), federation, 1)
    samples, split = read_partition(partition_file(tmp_path, 1))
    assert split is not None
    assert samples.loss == MSE()
    np.testing.assert_array_equal(samples.y[split.train], federation.data.y[federation.clients[1].train])
    assert read_npz(partition_file(tmp_path, 1)).classes == 3


RUN = ["simulate", "--model", "pflego_mlp", "--partition", "iid", "--clients", "3", "--per-round", "2"]


def simulated(capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    assert main([*RUN, "--rounds", "4", "--eval-every", "2", "--workers", "1", *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_are_reported_by_what_their_loss_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Regression has its loss alone. Decisions have the share of right ones, K of an example."""
    common = {"x_test": X[:10], "y_test": VALUES[:10]}
    found = simulated(capsys, "--data", saved(tmp_path, VALUES, **common), "--run-dir", str(tmp_path / "regression"))
    assert "loss" not in found["experiment"]
    for method in found["methods"].values():
        assert "accuracy" not in method
        evaluation = method["evaluation"][method["accuracy_of"]]
        assert evaluation["loss"] == method["loss"] == method["curve"][-1]["loss"]
        assert evaluation["decisions"] == 0
        assert "correct" not in evaluation
    assert found["methods"]["fedavg"]["evaluation"]["global_common"].keys() == {"loss", "examples", "decisions"}
    found = simulated(capsys, "--data", saved(tmp_path / "other", VALUES > 0), "--run-dir", str(tmp_path / "decisions"))
    method = found["methods"]["fedavg"]
    evaluation = method["evaluation"]["global_local"]
    right = [hits / (3 * n) for hits, n in zip(evaluation["correct"], evaluation["examples"])]
    assert method["accuracy"] == pytest.approx(sum(right) / 3)
    for path in ("regression", "decisions"):
        assert main(["simulate", "--resume", str(tmp_path / path), "--workers", "1"]) == 0
        printed = capsys.readouterr().out
        assert ("Mean loss on clients' own" if path == "regression" else "accuracy of 3 decisions") in printed


def test_a_resumed_run_is_the_same_with_adam_and_a_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--data", saved(tmp_path, VALUES), "--method", "fedspu", "--loss", "huber:delta=.5", "--optimizer", "adamw"]
    more += ["--schedule", "cosine", "--set", "warmup=1", "--lr", ".02", "--keep", ".5,1", "--checkpoint-every", "1"]
    whole = simulated(capsys, *more, "--run-dir", str(tmp_path / "whole"))
    assert whole["experiment"]["loss"] == "huber:delta=0.5"
    options = dict(map(tuple, whole["experiment"]["options"]))
    assert options == {"optimizer": "adamw", "schedule": "cosine", "warmup": 1}
    sgd = simulated(capsys, *more[:-12], "--lr", ".02", "--keep", ".5,1", "--run-dir", str(tmp_path / "sgd"))
    assert sgd["methods"]["fedspu"]["loss"] != whole["methods"]["fedspu"]["loss"]
    stored = Experiment.of_run(tmp_path / "whole")
    assert stored.algorithms()["fedspu"].rounds == 4  # type: ignore[attr-defined]
    assert main(["simulate", "--resume", str(tmp_path / "whole"), "--loss", "mse", "--workers", "1"]) == 2
    assert "was run with loss=huber:delta=0.5, not mse" in capsys.readouterr().err
    again = simulated(capsys, *more, "--run-dir", str(tmp_path / "again"))
    assert again["methods"]["fedspu"]["loss"] == whole["methods"]["fedspu"]["loss"]
    assert replace(stored, rounds=2).algorithms()["fedspu"].rounds == 2  # type: ignore[attr-defined]
