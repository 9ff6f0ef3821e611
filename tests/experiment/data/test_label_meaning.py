"""Targets have one meaning as a table, as a file of arrays and as arrays. A sentence says what they were taken for."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError, EdgeflError
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_data import data_of
from edgefl.experiment.settings import Experiment
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import Linear
from edgefl.rng import stream
from edgefl.study.run_request import asked

ROWS = 12
X = np.arange(ROWS * 2, dtype=np.float32).reshape(ROWS, 2)
THREE = np.arange(ROWS) % 3  # 0 1 2 0 1 2 ...
TWO = np.arange(ROWS) % 2
HALVES = np.arange(ROWS) / 8  # 0 .125 .25 ...
PRICES = 200000 + 5000 * np.arange(ROWS)


def as_arrays(folder: Path, y: np.ndarray, loss: str) -> DataSet:
    own = asked("fedavg", None, {"x": X, "y": y}, settings={"loss": loss} if loss else {}).own
    assert own is not None
    return data_of(Experiment(loss=loss), own=own)


def as_npz(folder: Path, y: np.ndarray, loss: str) -> DataSet:
    np.savez(folder / "made.npz", x=X, y=y)
    return data_of(Experiment(data=str(folder / "made.npz"), loss=loss))


def as_csv(folder: Path, y: np.ndarray, loss: str) -> DataSet:
    with open(folder / "made.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "y"])
        rows.writerows([*map(float, x), value] for x, value in zip(X, y.reshape(-1).tolist()))
    return data_of(Experiment(data=str(folder / "made.csv"), loss=loss))


CONTAINERS = {"arrays": as_arrays, "npz": as_npz, "csv": as_csv}
MEANINGS: list[tuple[str, np.ndarray, str, list[int] | None, int, str]] = [  # and labels, outputs, what is said
    ("integers from 0", THREE, "", [0, 1, 2], 3, "y: 3 classes, labels 0..2"),
    ("whole floats", THREE.astype(float), "", [0, 1, 2], 3, "y: 3 classes, labels 0..2; for numbers give loss=mse"),
    ("whole float32", THREE.astype("f4"), "", [0, 1, 2], 3, "y: 3 classes, labels 0..2; for numbers give loss=mse"),
    ("a column of integers", THREE[:, None], "", [0, 1, 2], 3, "y: 3 classes, labels 0..2"),
    ("a column of floats", THREE[:, None] * 1.0, "", [0, 1, 2], 3, "y: 3 classes, labels 0..2; for numbers"),
    ("labels from 1", THREE + 1, "", [0, 1, 2], 3, "y: 3 classes, labels 1..3"),
    ("labels with a gap", THREE * 2 + 1, "", [0, 1, 2], 3, "y: 3 classes, labels 1, 3, 5"),
    ("labels with a gap from 0", THREE * 2, "", [0, 2, 4], 5, "y: 5 classes, labels 0..4; no sample has label 1"),
    ("minus one and one", 2 * TWO - 1, "", [0, 1, 0], 2, "y: 2 classes, labels -1, 1; for numbers give loss=mse"),
    ("text", np.array(["sit", "run", "walk"])[THREE], "", [1, 0, 2], 3, "y: 3 classes, run, sit, walk"),
    ("booleans", TWO > 0, "", [0, 1, 0], 2, "y: 2 classes, False, True"),
    ("a column of booleans", (TWO > 0)[:, None], "", [0, 1, 0], 2, "y: 2 classes, False, True"),
    ("float 0 and 1", TWO * 1.0, "", [0, 1, 0], 2, "y: 2 classes, labels 0..1; for numbers give loss=mse"),
    ("numbers", HALVES, "", None, 1, "y: numbers from 0 to 1.375, squared error (loss=mse); for classes give whole"),
    ("whole prices", PRICES, "", None, 1, "y: whole numbers from 200000 to 255000, squared error (loss=mse); for"),
    ("prices as floats", PRICES * 1.0, "", None, 1, "y: whole numbers from 200000 to 255000, squared error"),
    ("floats that are all different", np.arange(ROWS) * 1.0, "", None, 1, "y: whole numbers from 0 to 11, squared"),
    ("classes that were asked for", PRICES * 1.0, "cross-entropy", [0, 1, 2], 12, "y: 12 classes, labels 200000"),
    ("numbers that were asked for", THREE + 1, "mse", None, 1, "y: a number for each sample, as loss=mse asks"),
    ("decisions of 0 and 1", TWO, "bce", None, 1, "y: a decision for each sample, as loss=bce asks"),
    ("decisions of -1 and 1", 2 * TWO - 1, "bce", None, 1, "y: -1 and 1 as the decisions 0 and 1, as loss=bce asks"),
    ("decisions of 1 and 2", TWO + 1, "bce", None, 1, "y: 1 and 2 as the decisions 0 and 1, as loss=bce asks"),
]  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("y", "loss", "labels", "outputs", "said"), [row[1:] for row in MEANINGS], ids=[row[0] for row in MEANINGS]
)
def test_targets_mean_the_same_in_every_container(
    tmp_path: Path, container: str, y: np.ndarray, loss: str, labels: list[int] | None, outputs: int, said: str
) -> None:
    found = CONTAINERS[container](tmp_path, y, loss)
    (note,) = found.notes
    assert note.startswith(said)
    if labels is not None:
        assert (found.y.dtype, found.classes, found.y[:3].tolist()) == (np.int32, outputs, labels)
    elif loss != "bce":
        assert found.y.reshape(-1).tolist() == np.float32(y).reshape(-1).tolist()
    else:
        assert found.y.reshape(-1).tolist() == TWO.tolist()


MATRICES = [
    (np.eye(3)[THREE], "", "y: 3 classes, one-hot rows; for 3 decisions give loss=bce", np.int32),
    (np.eye(3, dtype=np.uint8)[THREE], "", "y: 3 classes, one-hot rows", np.int32),
    (np.eye(3, dtype=bool)[THREE], "", "y: 3 classes, one-hot rows", np.int32),
    (np.eye(3)[THREE], "cross-entropy", "y: 3 classes, one-hot rows", np.int32),
    (np.eye(3)[THREE], "bce", "y: 3 decisions for each sample, as loss=bce asks", np.float32),
    (np.ones((ROWS, 3)), "", "y: 3 decisions of 0 or 1 for each sample (loss=bce)", np.float32),
    (np.ones((ROWS, 3)) / 2, "", "y: 3 numbers for each sample, squared error (loss=mse)", np.float32),
]


@pytest.mark.parametrize("container", ["arrays", "npz"])
@pytest.mark.parametrize(("y", "loss", "said", "kind"), MATRICES)
def test_rows_of_targets_are_classes_decisions_or_numbers(
    tmp_path: Path, container: str, y: np.ndarray, loss: str, said: str, kind: type
) -> None:
    found = CONTAINERS[container](tmp_path, y, loss)
    assert found.notes[0].startswith(said)
    assert found.y.dtype == kind
    assert found.y.tolist() == (THREE.tolist() if kind is np.int32 else np.float32(y).tolist())


def test_a_stated_number_of_classes_leaves_labels_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "share.npz", x=X, y=THREE + 1, classes=9)
    found = data_of(Experiment(data=str(tmp_path / "share.npz")))
    assert (found.classes, found.y[:3].tolist(), found.label_values) == (9, [1, 2, 3], None)


def test_the_test_part_has_the_labels_of_the_pool(tmp_path: Path) -> None:
    both = {"x": X, "y": THREE + 1, "x_test": X[:2], "y_test": np.array([3, 1])}
    np.savez(tmp_path / "made.npz", **both)
    found = data_of(Experiment(data=str(tmp_path / "made.npz")))
    assert found.y_test is not None
    assert (found.y_test.tolist(), found.label_values) == ([2, 0], (1, 2, 3))
    np.savez(tmp_path / "made.npz", **{**both, "y_test": np.array([3, 0])})
    with pytest.raises(DataError, match=r"made: y_test has 0; expected one of the labels of y, 1\.\.3"):
        data_of(Experiment(data=str(tmp_path / "made.npz")))


def linear(outputs: int) -> Model:
    graph = Graph((2,), (Node("fc", Linear(2, outputs), (INPUT,)),))
    return Model(graph, graph.init(stream(1, "init")))


def federation(y: np.ndarray, outputs: int, **settings: Any) -> Federation:
    found = asked("fedavg", linear(outputs), (X, y), settings={"clients": 2, "partition": "iid", **settings})
    return assemble_experiment(found.experiment, None, found.model, found.own).federation


@pytest.mark.parametrize("y", [TWO, TWO * 1.0, TWO[:, None], (TWO * 1.0)[:, None], TWO > 0, 2 * TWO - 1, TWO + 1])
def test_one_output_decides_between_two_classes(y: np.ndarray) -> None:
    found = federation(y, 1)
    assert str(found.data.loss) == "bce"
    assert found.data.y.tolist() == [[value] for value in TWO.tolist()]
    assert found.meaning.notes[-1] == "the model has 1 output for 2 classes: it learns one decision (loss=bce)"


@pytest.mark.parametrize(
    ("y", "outputs", "settings", "message"),
    [
        (THREE, 1, {}, r"1 outputs; .* has 3 classes; .*: an output for each class; or loss=\"bce\" for one output"),
        (TWO, 1, {"loss": "cross-entropy"}, r"1 outputs; .* has 2 classes; .* or loss=\"bce\" for one output and two"),
        (HALVES, 3, {}, "3 outputs; .* has 1 values for an example; .*: of classes, y has one whole number, text or"),
        (THREE * 2, 3, {}, "3 outputs; .* has 5 classes; .*no sample has label 1"),
        (HALVES, 3, {"loss": "cross-entropy"}, "targets of float32 and shape .*; expected labels, integers"),
    ],
)
def test_a_model_of_other_outputs_is_refused_with_the_remedy(
    y: np.ndarray, outputs: int, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(EdgeflError, match=message):
        federation(y, outputs, **settings)
