"""Files by other libraries give the data that these values give in an npz or CSV file, or are refused with a remedy."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data import optional_package
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.file_formats import ENDS

COLUMNS = {"a": [1.5, 2.0, -3.0], "n": [7, 8, 9], "ok": [True, False, True], "who": ["ann", "ben", "ann"]}
LABELS = ["walk", "run", "walk"]
READING = Reading(label="what", group="who")


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


def as_expected(found: DataSet) -> None:
    """The table above, as any file has it."""
    assert found.groups is not None
    assert found.x.tolist() == [[1.5, 7, 1], [2, 8, 0], [-3, 9, 1]]
    assert (found.columns, found.class_names, found.y.tolist()) == (("a", "n", "ok"), ("run", "walk"), [1, 0, 1])
    assert (found.group_names, found.groups.tolist()) == (("ann", "ben"), [0, 1, 0])


def arrow_file(path: Path, columns: dict[str, Any]) -> Path:
    import pyarrow
    from pyarrow import feather, parquet

    table = pyarrow.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path))
    else:
        new = pyarrow.ipc.new_stream if "stream" in path.name else pyarrow.ipc.new_file
        with pyarrow.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
            writer.write_table(table)
    return path


@needs("pyarrow")
@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "file.arrow", "stream.arrow", "T.PARQUET"])
def test_a_table_of_arrow(tmp_path: Path, name: str) -> None:
    path = arrow_file(tmp_path / name.lower(), {**COLUMNS, "what": LABELS})
    as_expected(load(str(path.rename(tmp_path / name)), reading=READING))


@needs("pyarrow")
def test_lists_dictionaries_and_dates_of_arrow(tmp_path: Path) -> None:
    import pyarrow

    columns = {
        "v": pyarrow.array([[1, 2], [3, 4]]),
        "kind": pyarrow.array(["x", "y"]).dictionary_encode(),
        "when": pyarrow.array([0, 60], pyarrow.timestamp("s", tz="UTC")),
    }
    found = load(str(arrow_file(tmp_path / "t.parquet", columns)), reading=Reading(label="kind", time="when"))
    assert (found.columns, found.x.tolist()) == (("v[0]", "v[1]"), [[1, 2], [3, 4]])
    assert found.times is not None
    assert (found.class_names, found.times.tolist()) == (("x", "y"), [0, 60])


@needs("pyarrow")
@needs("PIL")
def test_images_of_huggingface(tmp_path: Path) -> None:
    import io

    from PIL import Image

    def png(value: int) -> bytes:
        file = io.BytesIO()
        Image.new("L", (2, 3), value).save(file, "PNG")
        return file.getvalue()

    columns = {"image": [{"bytes": png(7), "path": "1.png"}, {"bytes": png(9), "path": "2.png"}], "label": [1, 0]}
    found = load(str(arrow_file(tmp_path / "mnist.parquet", columns)))
    assert (found.x.shape, found.x.dtype, found.scale) == ((2, 1, 3, 2), np.uint8, 1 / 255)
    assert (found.x[:, 0, 0, 0].tolist(), found.y.tolist()) == ([7, 9], [1, 0])
    columns["size"] = [1, 2]
    with pytest.raises(DataError, match="column image has images; expected no other inputs: --drop size"):
        load(str(arrow_file(tmp_path / "mnist.parquet", columns)))
    columns["image"][1]["bytes"] = b"no image"
    with pytest.raises(DataError, match=r"mnist.parquet: row 2: cannot identify image file"):
        load(str(arrow_file(tmp_path / "mnist.parquet", columns)))


ARROW_REFUSED = [
    ({"a": [1.0, None], "y": [0, 1]}, "row 2 has '' in column a; expected no empty cell, or --missing mean"),
    ({"a": [1, None], "y": [0, 1]}, "row 2 has '' in column a; expected no empty cell, or --missing mean"),
    ({"a": [1.0, float("inf")], "y": [0, 1]}, "row 2 has inf in column a; expected a finite number"),
    (
        {"a": [[1.0], [1.0, 2.0]], "y": [0, 1]},
        "column a has lists of several lengths or kinds; expected equally many numbers",
    ),
    (
        {"a": [{"b": 1}, {"b": 2}], "y": [0, 1]},
        "column a is struct<b: int64>; expected numbers, texts, dates, images, or --drop a",
    ),
    ({"a": [1.0], "z": [0]}, "no column label or y among a, z; expected the label's name (--label)"),
    ({"a": [], "y": []}, "0 rows; expected a row for each example"),
]


@needs("pyarrow")
@pytest.mark.parametrize(("columns", "message"), ARROW_REFUSED)
def test_what_is_wrong_in_arrow_is_named(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        load(str(arrow_file(tmp_path / "t.parquet", columns)))
    assert message in str(error.value)


@needs("pyarrow")
def test_a_missing_value_of_arrow_gets_the_mean(tmp_path: Path) -> None:
    path = arrow_file(tmp_path / "t.parquet", {"a": [1, None], "y": [0, 1]})
    found = load(str(path), reading=Reading(missing="mean"))
    assert found.absent is not None
    assert found.absent.tolist() == [[False], [True]]


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json"])
def test_a_table_of_json(tmp_path: Path, name: str) -> None:
    rows = [dict(zip((*COLUMNS, "what"), row, strict=True)) for row in zip(*COLUMNS.values(), LABELS, strict=True)]
    text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)) + "\n\n"
    (tmp_path / name).write_text(text)
    as_expected(load(str(tmp_path / name), reading=READING))


JSON_REFUSED = [
    ("t.jsonl", '{"a": 1, "y": 0}\n{"a": 2, "y"', "line 2: "),
    ("t.jsonl", '{"a": 1, "y": 0}\n3\n', "line 2 is int; expected an object"),
    ("t.jsonl", '{"a": 1, "y": 0}\n{"y": 1}\n', "line 2 has '' in column a; expected no empty cell, or --missing mean"),
    ("t.jsonl", '{"a": {"b": 1}, "y": 0}\n', "a contains objects; expected numbers, texts, or lists of numbers"),
    ("t.jsonl", "", "0 objects; expected one object for each example"),
    ("t.json", '{"a": 1}', "dict; expected a list of objects, or users and user_data as in LEAF"),
    ("t.json", "{", "cannot be read (Expecting property name"),
]


@pytest.mark.parametrize(("name", "text", "message"), JSON_REFUSED)
def test_what_is_wrong_in_json_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as error:
        load(str(tmp_path / name))
    assert f"{tmp_path / name}: {message}" in str(error.value) or message in str(error.value)


def leaf(**users: tuple[list[Any], list[Any]]) -> str:
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    return json.dumps({"users": list(users), "num_samples": [len(y) for _, y in users.values()], "user_data": data})


def test_leaf_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "all_data.json").write_text(leaf(ann=([[1, 2.5], [3, 4]], [0, 1]), ben=([[5, 6]], [1])))
    found = load(str(tmp_path / "all_data.json"))
    assert found.groups is not None
    assert (found.x.tolist(), found.y.tolist()) == ([[1, 2.5], [3, 4], [5, 6]], [0, 1, 1])
    assert (found.group_names, found.groups.tolist()) == (("ann", "ben"), [0, 0, 1])


def test_leaf_in_folders(tmp_path: Path) -> None:
    pixels = [[at / 784 for at in range(784)]]
    for part, user in (("train", "ann"), ("test", "ann")):
        (tmp_path / part).mkdir()
        (tmp_path / part / "all_data_0.json").write_text(leaf(**{user: (pixels, [3])}))
    found = load(str(tmp_path))
    assert found.x_test is not None
    assert (found.x.shape, found.x_test.shape, found.y.tolist()) == ((1, 1, 28, 28), (1, 1, 28, 28), [3])
    assert found.x[0, 0, 1, 0] == np.float32(28 / 784)
    assert found.notes[0].startswith("the 784 values of a sample are taken as 28 x 28 pixels (--axes NF")
    assert load(str(tmp_path), reading=Reading(axes="NF")).x.shape == (1, 784)


def test_leaf_of_letters(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(leaf(ann=(["abc", "bca"], ["a", "d"])))
    found = load(str(tmp_path / "s.json"))
    assert (found.x.tolist(), found.y.tolist(), found.vocabulary) == ([[0, 1, 2], [1, 2, 0]], [0, 3], 4)
    assert found.class_names == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (leaf(ann=(["ab", "abc"], ["a", "b"])), "texts of 2 to 3 characters; expected texts of one length"),
        (
            leaf(ann=([["t", 1], ["u", 2]], [0, 1])),
            "expected equally many numbers for each sample, or texts of one length",
        ),
        (leaf(ann=([[1]], [0, 1])), "user 'ann' has no x and y of one length; expected both in user_data"),
        ('{"users": ["ann"], "user_data": {}}', "user 'ann' has no x and y of one length"),
    ],
)
def test_what_is_wrong_in_leaf_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(DataError) as error:
        load(str(tmp_path / "s.json"))
    assert message in str(error.value)


@needs("h5py")
@pytest.mark.parametrize("layout", ["names", "parts"])
def test_hdf5(tmp_path: Path, layout: str) -> None:
    import h5py

    names = {"names": ("x", "y", "x_test", "y_test"), "parts": ("train/x", "train/y", "test/x", "test/y")}[layout]
    values = [[1.0, 2], [3, 4]], [0, 1], [[5.0, 6]], [1]
    with h5py.File(tmp_path / "d.h5", "w") as file:
        for name, value in zip(names, values, strict=True):
            file[name] = value
    found = load(str(tmp_path / "d.h5"))
    assert found.x_test is not None and found.y_test is not None
    assert (found.x.tolist(), found.y.tolist()) == (values[0], values[1])
    assert (found.x_test.tolist(), found.y_test.tolist()) == (values[2], values[3])


@needs("h5py")
def test_hdf5_of_clients(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "emnist.hdf5", "w") as file:
        for client, labels in (("f0", [0, 1]), ("f1", [2])):
            file[f"examples/{client}/pixels"] = np.full((len(labels), 2, 2), labels[0], np.float32)
            file[f"examples/{client}/label"] = np.array(labels, np.int32)
    found = load(str(tmp_path / "emnist.hdf5"))
    assert found.groups is not None
    assert (found.x.shape, found.y.tolist(), found.x[2, 0, 0, 0]) == ((3, 1, 2, 2), [0, 1, 2], 2)
    assert (found.group_names, found.groups.tolist()) == (("f0", "f1"), [0, 0, 1])


@needs("h5py")
def test_texts_of_hdf5_are_classes(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x"], file["y"] = [[1.0], [2.0]], ["b", "a"]
    found = load(str(tmp_path / "d.h5"))
    assert (found.class_names, found.y.tolist()) == (("a", "b"), [1, 0])


@needs("scipy")
def test_matlab(tmp_path: Path) -> None:
    from scipy import io

    io.savemat(tmp_path / "d.mat", {"X": [[1.0, 2], [3, 4], [5, 6]], "y": [[0.0], [1], [0]]})
    found = load(str(tmp_path / "d.mat"))
    assert (found.x.tolist(), found.y.tolist(), found.has_labels) == ([[1, 2], [3, 4], [5, 6]], [0, 1, 0], True)
    images = np.arange(6 * 5 * 3 * 2, dtype=np.uint8).reshape(6, 5, 3, 2)  # height, width, channels, samples
    io.savemat(tmp_path / "svhn.mat", {"X": images, "y": [[0], [1]]})
    found = load(str(tmp_path / "svhn.mat"), reading=Reading(axes="NHWC"))
    assert (found.input_shape, found.x[1, 2, 3, 4]) == ((3, 6, 5), images[3, 4, 2, 1])
    assert found.notes[0] == "the samples are the last axis of x, and are taken as the first"
    with pytest.raises(DataError, match="expected axes=NHWC if the last 3 are channels"):
        load(str(tmp_path / "svhn.mat"))


@needs("scipy")
def test_texts_of_matlab_are_classes(tmp_path: Path) -> None:
    from scipy import io

    io.savemat(tmp_path / "d.mat", {"x": [[1.5], [2.5]], "y": np.array(["run", "sit"], object)})
    found = load(str(tmp_path / "d.mat"))
    assert (found.class_names, found.y.tolist()) == (("run", "sit"), [0, 1])


@needs("h5py")
def test_matlab_of_version_7_3_has_its_axes_turned(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "d.mat", "w", userblock_size=512) as file:
        file["x"], file["y"] = np.array([[1.5, 3, 5], [2, 4, 6]]), np.array([[0.0, 1, 0]])  # MATLAB's 3 x 2 and 3 x 1
    with open(tmp_path / "d.mat", "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(512))
    found = load(str(tmp_path / "d.mat"))
    assert (found.x.tolist(), found.y.tolist()) == ([[1.5, 2], [3, 4], [5, 6]], [0, 1, 0])


DAMAGED = [end for end in ENDS if end not in (".npy", ".csv", ".tsv")]


@pytest.mark.parametrize("end", DAMAGED)
def test_a_damaged_file_is_named(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"d{end}"
    path.write_bytes(b"\x00\x01 this is none of it")
    with pytest.raises(DataError) as error:
        load(str(path))
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("t.parquet", "pyarrow", "arrow"), ("t.h5", "h5py", "hdf5"), ("t.mat", "scipy", "science")],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str, extra: str
) -> None:
    monkeypatch.setattr(optional_package, "find_spec", lambda name: None)
    (tmp_path / name).write_bytes(b"any")
    with pytest.raises(DataError) as error:
        load(str(tmp_path / name))
    assert str(error.value) == f"{tmp_path / name} needs the package {package}; expected: pip install 'edgefl[{extra}]'"


UNREAD = [
    (
        "d.xlsx",
        'expected a table: python -c \'import pandas; pandas.read_excel("d.xlsx").to_csv("d.csv", index=False)\'',
    ),
    ("d.pkl", 'pandas.read_pickle("d.pkl").to_csv("d.csv", index=False)'),
    ("d.dta", 'pandas.read_stata("d.dta")'),
    ("d.txt", 'pandas.read_table("d.txt")'),
    ("d.pt", 'import numpy, torch; x, y = torch.load("d.pt"); numpy.savez("d.npz", x=x, y=y)'),
    ("d.zip", "packed files are not read; expected their content: python -m zipfile -e d.zip d (or tarfile)"),
    ("d.tar.gz", "packed files are not read"),
    ("d.onnx", "a .onnx file has a model and no samples; expected it as the model (--model)"),
    ("d.safetensors", "a .safetensors file has a model and no samples"),
    ("d.tfrecord", ".tfrecord files are not read; expected an .npz file, "),
    ("d.tfrecord", 'numpy.savez("d.npz", x=x, y=y) in a program'),
    ("data", "files without an ending in their name are not read; expected an .npz file"),
]


@pytest.mark.parametrize(("name", "message"), UNREAD)
def test_a_format_that_is_not_read_is_named_with_what_converts_it(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"any")
    with pytest.raises(DataError) as error:
        load(str(tmp_path / name))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


PATHS = [
    ("{}/walk.csv", "walk.csv: no such file or folder, here or in "),
    ("{}/walk.csv", " has walks.csv"),
    ("{}/none/walks.csv", "none/walks.csv: no such file or folder, because the folder "),
    ("./nosuch", "./nosuch: no such file or folder"),
    ("nosuch.csv", "nosuch.csv: no such file or folder"),
    ("nosuch/", "nosuch/: no such file or folder"),
    ("digit", "data set 'digit'; the nearest is digits"),
    ("xyzzy", "data set 'xyzzy'; expected one of digits, spoken-digits"),
]


@pytest.mark.parametrize(("name", "message"), PATHS)
def test_nothing_at_a_path_is_said(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "walks.csv").write_text("a,y\n1,0\n")
    with pytest.raises(DataError) as error:
        load(name.format(tmp_path), tmp_path / "data")
    assert message in str(error.value)
