"""`edgefl predict` reads what `simulate` reads, as the training run read it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgefl
from edgefl import rng
from edgefl.cli.cli import main
from edgefl.models import quantize_model
from edgefl.models.graph import Model, architectures, model_files

HEAD = "colour,size,ok,what\n"
ROWS = ["red,1,True,a\n", "blue,2,False,b\n", "red,,True,a\n", "blue,4,False,b\n"] * 10
CODED = {"red": [0, 1], "blue": [1, 0]}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, the run that was trained on it, and the run's model."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "t.csv").write_text(HEAD + "".join(ROWS))
    given = ["--data", str(folder / "t.csv"), "--label", "what", "--missing", "mean", "--clients", "2", "--rounds", "1"]
    asked = ["--method", "fedavg", "--partition", "iid", "--run-dir", str(folder / "run")]
    assert main(["simulate", *given, *asked]) == 0
    assert main(["export", str(folder / "run"), str(folder / "m.safetensors")]) == 0
    return folder


def predicted(desk: Path, inputs: Path, *options: str) -> np.ndarray:
    out = desk / "out.npy"
    assert main(["predict", str(desk / "m.safetensors"), str(inputs), "-o", str(out), *options]) == 0
    return np.load(out)


def refused(desk: Path, inputs: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert main(["predict", str(desk / "m.safetensors"), str(inputs), *options]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


TABLES = [  # a table, and the features that it has: colour=blue, colour=red, size, ok
    ("as trained", HEAD + "red,3,True,a\n", [[0, 1, 3, 1]]),
    ("without labels", "colour,size,ok\nblue,3,False\n", [[1, 0, 3, 0]]),
    ("in another order", "ok,size,colour\nTrue,5,red\n", [[0, 1, 5, 1]]),
    ("with other columns", "id,ok,size,colour\nx,True,5,red\n", [[0, 1, 5, 1]]),
    ("with an index", ",ok,size,colour\n0,True,5,red\n", [[0, 1, 5, 1]]),
    ("with decimal commas", "ok;size;colour\nTrue;5,5;red\n", [[0, 1, 5.5, 1]]),
    ("one text of two", "ok,size,colour\nTrue,5,blue\nTrue,5,blue\n", [[1, 0, 5, 1], [1, 0, 5, 1]]),
]


@pytest.mark.parametrize(("text", "x"), [each[1:] for each in TABLES], ids=[each[0] for each in TABLES])
def test_a_table_is_coded_as_the_training_data_were(desk: Path, text: str, x: list[list[float]]) -> None:
    np.save(desk / "x.npy", np.array(x, np.float32))
    expected = predicted(desk, desk / "x.npy")
    assert predicted(desk, write(desk, "new.csv", text), "--run", str(desk / "run")).tolist() == expected.tolist()


def test_a_missing_value_gets_the_mean_of_the_training_samples(desk: Path) -> None:
    from edgefl.experiment.training_data import trained_on

    means = trained_on(desk / "run").means
    assert means is not None
    assert 2 < means[2] < 3  # of 1, 2 and 4, by the split
    np.save(desk / "x.npy", np.array([[0, 1, means[2], 1]], np.float32))
    expected = predicted(desk, desk / "x.npy")
    found = predicted(desk, write(desk, "new.csv", "colour,size,ok\nred,,True\n"), "--run", str(desk / "run"))
    assert found.tolist() == expected.tolist()


TABLES_REFUSED = [
    ("colour,ok\nred,True\n", True, "no column size, which the model was trained on, among colour, ok"),
    ("colour,size,ok\ngreen,1,True\n", True, "line 2 has 'green' in column colour; expected one of blue, red, as in"),
    ("colour,size,ok\nred,big,True\n", True, "line 2 has 'big' in column size; expected a finite number"),
    ("colour,size\nred,1\nred,2\n", False, "column colour has texts; expected --run RUN, whose training data say"),
    ("a,b\n1,2\n", False, "x is float32 (1, 2); expected float32 [N, 4]"),
    ("a,b,c,d\n1,2,,4\n", False, "line 2 has '' in column c; expected no empty cell"),
]


@pytest.mark.parametrize(("text", "has_run", "message"), TABLES_REFUSED)
def test_a_table_that_does_not_fit_is_refused(
    desk: Path, capsys: pytest.CaptureFixture[str], text: str, has_run: bool, message: str
) -> None:
    options = ["--run", str(desk / "run")] if has_run else []
    assert message in refused(desk, write(desk, "new.csv", text), capsys, *options)


def test_numbers_alone_need_no_run(desk: Path) -> None:
    np.save(desk / "x.npy", np.array([[1, 2, 3, 4]], np.float32))
    expected = predicted(desk, desk / "x.npy")
    assert predicted(desk, write(desk, "new.csv", "a,b,c,d,label\n1,2,3,4,0\n")).tolist() == expected.tolist()
    assert (
        predicted(desk, write(desk, "new.csv", "id,a,b,c,d\nx,1,2,3,4\n"), "--drop", "id").tolist() == expected.tolist()
    )
    assert predicted(desk, write(desk, "n.jsonl", '{"a": 1, "b": 2, "c": 3, "d": 4}')).tolist() == expected.tolist()


def test_what_is_not_there_or_not_read_is_said(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none.csv: no such file or folder" in refused(desk, desk / "none.csv", capsys)
    assert ".xlsx files are not read" in refused(desk, write(desk, "t.xlsx", "any"), capsys)


def test_int8_activations_are_an_option_of_models_with_int8_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = architectures.build("lenet5", (1, 28, 28), 10)
    wide = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    x = np.random.RandomState(1).standard_normal((3, 1, 28, 28)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    model_files.save(tmp_path / "m.safetensors", wide)
    assert "without int8 weights" in refused(tmp_path, tmp_path / "x.npy", capsys, "--int8-activations")
    model_files.save(tmp_path / "m.safetensors", quantize_model(wide))
    found = predicted(tmp_path, tmp_path / "x.npy", "--int8-activations")
    expected = edgefl.load(tmp_path / "m.safetensors", int8_activations=True).predict(x)
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found, predicted(tmp_path, tmp_path / "x.npy"))


def test_images_are_read_as_the_model_takes_them(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pixels = np.arange(8 * 8 * 8, dtype=np.uint8).reshape(8, 8, 8)
    for at, plane in enumerate(pixels):
        path = tmp_path / "pets" / "ab"[at % 2] / f"{at}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(plane).save(path)
    run = ["--partition", "iid", "--clients", "2", "--rounds", "1", "--method", "fedavg", "--model", "cnn"]
    assert main(["simulate", "--data", str(tmp_path / "pets"), "--run-dir", str(tmp_path / "run"), *run]) == 0
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "m.safetensors")]) == 0
    np.save(tmp_path / "x.npy", pixels[[0, 2, 4, 6]][:, np.newaxis].astype(np.float32) * np.float32(1 / 255))
    expected = predicted(tmp_path, tmp_path / "x.npy")
    assert predicted(tmp_path, tmp_path / "pets" / "a").tolist() == expected.tolist()
    assert predicted(tmp_path, tmp_path / "pets" / "a" / "2.png").shape == (1, 2)
    np.save(tmp_path / "raw.npy", pixels[[0, 2, 4, 6]])
    assert predicted(tmp_path, tmp_path / "raw.npy", "--run", str(tmp_path / "run")).tolist() == expected.tolist()


def test_labels_are_printed_by_their_names(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exported file has the names, so the answer does not depend on the run; a file of answers has both."""
    names, numbers = ["a", "b"], [0, 1]
    table = write(desk, "new.csv", "colour,size,ok\nred,1,True\nblue,4,False\n")
    model = edgefl.load(desk / "m.safetensors")
    assert model.class_names == ("a", "b")
    asked = ["predict", str(desk / "m.safetensors"), str(table), "--run", str(desk / "run"), "--labels"]
    assert main([*asked, "-o", str(desk / "labels.npz")]) == 0
    with np.load(desk / "labels.npz") as answers:
        found = answers["labels"].tolist()
        assert answers["label_names"].tolist() == [names[at] for at in found]
        assert model.names_of(answers["logits"]) == [names[at] for at in found]
    capsys.readouterr()
    assert main(asked) == 0
    assert capsys.readouterr().out.splitlines() == [names[at] for at in found]
    assert set(found) <= set(numbers)


def test_a_model_without_names_takes_those_of_the_run(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device does not know the names of the classes, and the data of its run have them."""
    table = write(desk, "new.csv", "colour,size,ok\nred,1,True\nblue,4,False\n")
    model_files.save(desk / "device.safetensors", edgefl.load(desk / "m.safetensors").model)
    given = [str(desk / "device.safetensors"), str(table), "--run", str(desk / "run"), "--labels"]
    capsys.readouterr()
    assert main(["predict", *given]) == 0
    assert set(capsys.readouterr().out.split()) <= {"a", "b"}


def test_a_run_answers_by_names_and_writes_them_to_onnx(desk: Path) -> None:
    model = edgefl.open_run(desk / "run").method.model
    assert model.class_names == ("a", "b")
    x = np.float32([[0, 1, 1, 1], [1, 0, 4, 0]])
    expected = [("a", "b")[at] for at in model.labels(x).tolist()]
    assert model.label_names(x) == expected
    assert pickle.loads(pickle.dumps(model)).label_names(x) == expected
    properties = onnx.load(model.save(desk / "m.onnx")).metadata_props
    assert {each.key: json.loads(each.value) for each in properties} == {"edgefl.class_names": ["a", "b"]}


def test_every_column_without_values_is_named_at_once(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(desk, "odd.csv", "id,when,size\nR1,2026-01-01,1\nR2,2026-01-02,2\n")
    said = refused(desk, table, capsys)
    assert "line 2 has 'R1' in column id; expected a finite number" in said
    assert "Refused as well: line 2 has '2026-01-01' in column when. --run RUN reads the columns" in said
