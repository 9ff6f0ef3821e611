"""Columns and targets that would end training in silence are refused, and standardised ones train.

Models are given back in the units of the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.errors import DataError
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.data.column_units import check_columns
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.scales import Standardisation, moments, robust
from edgefl.experiment.data.standardisation import standardised
from edgefl.experiment.data_meaning import DataMeaning, read_meaning, write_meaning
from edgefl.learning import Samples
from edgefl.learning.predictor import Predictor
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import Linear
from edgefl.study.export.original_units import in_original_units
from edgefl.study.run_request import asked

DRAW = np.random.default_rng(4)
Y = DRAW.integers(0, 3, 120)
X = (DRAW.normal(size=(120, 4)) + 2 * np.eye(3, 4)[Y]).astype("f8")


def scaled(column: int, factor: float, shift: float = 0.0) -> np.ndarray:
    found = X.copy()
    found[:, column] = found[:, column] * factor + shift
    return found


def checked(x: np.ndarray, y: np.ndarray, **settings: Any) -> None:
    found = asked("fedavg", None, (x, y), settings=settings)
    assemble_experiment(found.experiment, None, found.model, found.own)


@pytest.mark.parametrize(
    ("x", "y", "settings", "message"),
    [
        (
            scaled(2, 1e9),
            Y,
            {},
            "column 2 of x has spread .*e.09.*; expected at most 1e6: divide .* by 1e.09, or",
        ),
        (scaled(0, 1e7), Y, {}, "column 0 of x has spread .*e.07.*divide the column by 1e.07"),
        (scaled(3, 1, 1e13), Y, {}, "column 3 of x has mean 1e.13"),
        (
            X,
            5e4 * X[:, 0] + 2e5,
            {},
            r"y has spread .*e.04 and the untrained model is off by 2.*e.05.*0\.05 diverges",
        ),
        (
            X,
            5e4 * X[:, 0] + 2e5,
            {"optimizer": "adam", "lr": 0.01},
            r"lr=0\.01 does not reach the targets; expected",
        ),
        (X, 5e4 * X[:, 0] + 2e5, {"loss": "huber"}, "does not reach the targets; .*standardise=True in Python"),
    ],
)
def test_units_that_end_training_are_refused_with_column_spread_and_factor(
    x: np.ndarray, y: np.ndarray, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        checked(x, y, **settings)


@pytest.mark.parametrize(
    ("x", "y", "settings"),
    [
        (scaled(2, 1e6), Y, {}),
        (scaled(2, 1e-6), Y, {}),
        (scaled(2, 1e9), Y, {"bound": "off"}),
        (scaled(2, 1e9), Y, {"standardise": True}),
        (X, X[:, 0], {}),
        (X, 5e4 * X[:, 0] + 2e5, {"standardise": True}),
        (X, 5e4 * X[:, 0] + 2e5, {"lr": 1e-6}),
        (X, 5e4 * X[:, 0] + 2e5, {"tune": {"lr": [1e-6, 1e-7]}}),
    ],
)
def test_units_that_train_are_taken(x: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> None:
    checked(x, y, **settings)


def test_a_device_refuses_its_own_wide_column() -> None:
    check_columns(Samples(np.float32(X), np.int32(Y)))
    with pytest.raises(DataError, match=r"column 1 \(bytes\) of x has spread"):
        check_columns(Samples(np.float32(scaled(1, 1e9)), np.int32(Y)), ("temperature", "bytes", "x", "y"))


def test_medians_and_quartiles_by_hand() -> None:
    column = np.array([[1.0], [2.0], [3.0], [4.0], [1000.0]])  # quartiles 2 and 4
    assert robust(column) == ((3.0,), (2 / 1.349,))
    assert robust(np.array([[5.0], [5.0]])) == ((5.0,), (1.0,))
    assert robust(np.array([[0.0], [0.0], [0.0], [0.0], [5.0]])) == ((0.0,), (2.0,))  # no quartiles: the deviation
    assert moments(np.array([[1.0], [3.0]])) == ((2.0,), (1.0,))
    scales = Standardisation((3.0,), (2.0,), (10.0,), (5.0,))
    assert scales.inputs(np.array([[1.0], [5.0]])).tolist() == [[-1.0], [1.0]]
    assert scales.targets(np.array([[20.0]])).tolist() == [[2.0]]
    assert Standardisation.from_json(scales.to_json()) == scales


def test_channels_are_standardised_as_a_whole() -> None:
    x = np.stack([np.arange(6.0).reshape(2, 3), 100 * np.arange(6.0).reshape(2, 3)], axis=1).astype(np.float32)
    found = standardised(DataSet("lines", x, np.int32([0, 1]), 2, 1.0, 0.0), is_regression=False)
    assert found.x[:, 0].tolist() == found.x[:, 1].tolist()
    assert found.standardised is not None
    assert found.standardised.mean == (2.5, 250.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"x": np.uint8([[1], [2]])},
            "made: standardise with x of uint8, which is scaled to 0..1; expected",
        ),
        ({"vocabulary": 3}, "made: standardise with x of ids of words; expected features of a floating-point type"),
        (
            {"scale": 2.0},
            "made: standardise together with scale=2 and shift=0; expected standardise, or scale and shift",
        ),
    ],
)
def test_what_has_no_units_is_not_standardised(more: dict[str, Any], message: str) -> None:
    plain = {"x": np.float32([[1], [2]]), "y": np.int32([0, 1]), "classes": 2, "scale": 1.0, "shift": 0.0}
    with pytest.raises(DataError, match=message):
        standardised(DataSet("made", **{**plain, **more}), is_regression=False)


def test_a_model_in_original_units_by_hand() -> None:
    """It learnt y' = 2 x' with x' = (x - 3) / 2 and y' = (y - 10) / 5. For x = 7 it gives 10 + 5 * 2 * 2."""
    graph = Graph((1,), (Node("fc", Linear(1, 1), (INPUT,)),))
    model = Model(graph, {"fc.weight": np.float32([[2]]), "fc.bias": np.float32([0])})
    found = in_original_units(model, Standardisation((3.0,), (2.0,), (10.0,), (5.0,)))
    assert Predictor.of(found).predict(np.float32([[7], [3]]))[:, 0].tolist() == pytest.approx([30.0, 10.0], rel=1e-6)


def test_a_run_of_prices_learns_and_answers_in_prices(tmp_path: Path) -> None:
    prices = 5e4 * X[:, 0] + 2e5
    settings = {"rounds": 10, "standardise": True, "progress": False, "clients": 2}
    run = edgefl.simulate("fedavg", data=(X, prices), directory=tmp_path / "run", **settings)
    model = run.method.model
    error = model.predict(X)[:, 0] - prices
    assert np.mean(error**2) < 0.3 * prices.var()
    model.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(edgefl.load(tmp_path / "m.safetensors").predict(np.float32(X)), model.predict(X))
    assert run.notes[0].startswith("y: numbers from")
    assert "standardised" in run.notes[1]
    again = edgefl.open_run(tmp_path / "run")
    np.testing.assert_array_equal(again.method.model.predict(X), model.predict(X))


def test_a_run_of_labels_from_1_answers_with_them(tmp_path: Path) -> None:
    run = edgefl.simulate(
        "fedavg", data=(X, Y + 1), directory=tmp_path / "run", rounds=5, clients=2, progress=False, partition="iid"
    )
    assert set(run.method.model.labels(X).tolist()) <= {1, 2, 3}
    assert run.notes == ("y: 3 classes, labels 1..3",)


def test_data_json_is_written_where_there_is_something_to_say(tmp_path: Path) -> None:
    write_meaning(tmp_path, DataMeaning())
    assert list(tmp_path.iterdir()) == []
    assert read_meaning(tmp_path) == DataMeaning()
    meaning = DataMeaning(("y: 2 classes, labels 1..2",), (1, 2), Standardisation((1.0,), (2.0,)))
    write_meaning(tmp_path, meaning)
    assert read_meaning(tmp_path) == meaning
    assert meaning.classes(None) == (1, 2)
    assert meaning.classes((1,)) == (2,)
    named = DataMeaning(("y: 2 classes, cat, dog",), class_names=("cat", "dog"))
    write_meaning(tmp_path, named)
    assert read_meaning(tmp_path) == named
    assert named.names(None, 2) == ("cat", "dog")
    assert named.names((1,), 1) == ("dog",)
    assert named.names(None, 3) is meaning.names(None, 2) is None
