"""Folders by `save_to_disk` of Hugging Face's `datasets` give a table with classes and a test part, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.model_inputs import model_inputs

pyarrow = pytest.importorskip("pyarrow")


def saved(folder: Path, *files: dict[str, Any], names: Any = ("walk", "run")) -> Path:
    """Write what `save_to_disk` of Hugging Face's datasets 5.2 writes for a Dataset, whose column `what` is classes."""
    folder.mkdir(parents=True)
    told = {"info": {"features": {"a": {"_type": "Value"}, "what": {"names": names, "_type": "ClassLabel"}}}}
    listed = [{"filename": f"data-{at}.arrow"} for at in range(len(files))]
    for columns, file in zip(files, listed, strict=True):
        table = pyarrow.table(columns).replace_schema_metadata({"huggingface": json.dumps(told)})
        with (
            pyarrow.OSFile(str(folder / file["filename"]), "wb") as opened,
            pyarrow.ipc.new_stream(opened, table.schema) as writer,
        ):
            writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": listed, "_split": None}))
    return folder


def test_a_folder_of_huggingface_keeps_the_order_of_its_files_and_of_its_classes(tmp_path: Path) -> None:
    folder = saved(tmp_path / "walks", {"a": [1.5, 2], "what": [0, 1]}, {"a": [3.0], "what": [0]})
    found = load(str(folder), reading=Reading(label="what"))
    assert (found.name, found.x.tolist(), found.y.tolist()) == ("walks", [[1.5], [2], [3]], [0, 1, 0])
    assert (found.class_names, found.classes, found.are_classes_stated) == (("walk", "run"), 2, True)
    assert model_inputs(folder, (1,), Reading(drop=("what",))).x.tolist() == [[1.5], [2], [3]]


@pytest.mark.parametrize(("other", "tested"), [("test", [5.0]), ("validation", [5.0, 6.0])])
def test_a_split_of_huggingface_is_the_test_part(tmp_path: Path, other: str, tested: list[float]) -> None:
    saved(tmp_path / "d" / "train", {"a": [1.0, None, 3], "g": ["ann", "ben", "ann"], "what": [0, 1, 1]})
    saved(tmp_path / "d" / "validation", {"a": [5.0, 6], "g": ["cy", "ben"], "what": [0, 1]})
    splits = ["train", "validation"]
    if other == "test":
        saved(tmp_path / "d" / "test", {"a": [5.0], "g": ["ben"], "what": [0]})
        splits.append("test")
    (tmp_path / "d" / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
    found = load(str(tmp_path / "d"), reading=Reading(label="what", group="g", missing="drop"))
    assert found.x_test is not None and found.groups is not None and found.groups_test is not None
    assert found.x[:2].tolist() == [[1], [3]]
    assert (found.x_test[:, 0].tolist(), len(found) + len(tested)) == (tested, 5 if other == "test" else 4)
    assert (found.groups[:2].tolist(), found.groups_test[-1]) == ([0, 0], 1)
    pool = "train and validation" if other == "test" else "train"
    assert found.notes[0] == f"clients own the samples in {pool}; {other} is the test part"
    filled = load(str(tmp_path / "d"), reading=Reading(label="what", group="g", missing="mean"))
    assert filled.absent is not None and filled.absent_test is not None
    assert (filled.absent[:3, 0].tolist(), filled.absent_test.any()) == ([False, True, False], False)


HUGGING_FACE_REFUSED: list[tuple[str, Any, str]] = [
    ("walks/state.json", {"_data_files": [{"filename": "../t.arrow"}]}, "expected names in this folder"),
    ("walks/state.json", {"_data_files": 3}, "walks/state.json: _data_files is 3; expected names in this folder"),
    ("walks/state.json", [], "_data_files is None; expected names"),
    ("walks/state.json", {"_data_files": [{"filename": "none.arrow"}]}, "none.arrow: no such file"),
    (
        "dataset_dict.json",
        {"splits": ["train", "extra"]},
        "the split 'extra'; expected only train, validation and",
    ),
    ("dataset_dict.json", {"splits": ["test"]}, "has test; expected train as well"),
    ("dataset_dict.json", {"splits": []}, "has no split; expected train as well"),
]


@pytest.mark.parametrize(("file", "content", "message"), HUGGING_FACE_REFUSED)
def test_what_is_wrong_in_a_folder_of_huggingface_is_named(
    tmp_path: Path, file: str, content: Any, message: str
) -> None:
    saved(tmp_path / "walks", {"a": [1.0], "what": [0]})
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(DataError) as error:
        load(str((tmp_path / file).parent), reading=Reading(label="what"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("names", "what", "message"),
    [
        (("walk", "run"), [0, -1], "row 2 has -1 in column what; expected 0 to 1, the numbers of the named classes"),
        (("walk", "run"), [2, 0], "row 1 has 2 in column what"),
        (3, [0, 1], "the metadata of Hugging Face's datasets: cannot be read"),
    ],
)
def test_a_label_without_a_class_of_huggingface_is_refused(
    tmp_path: Path, names: Any, what: list[int], message: str
) -> None:
    folder = saved(tmp_path / "walks", {"a": [1.0, 2.0], "what": what}, names=names)
    with pytest.raises(DataError) as error:
        load(str(folder), reading=Reading(label="what"))
    assert message in str(error.value)
