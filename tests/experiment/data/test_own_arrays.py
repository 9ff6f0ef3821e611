"""Arrays as people have them: npy files beside one another, texts, dates, axes in any order, ids of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.npz import read_npy, read_npz

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
Y = np.array([0, 1, 1, 0])


def npz(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "made.npz"
    np.savez(path, **{"x": X, "y": Y, **arrays})
    return path


def test_arrays_lie_beside_one_another(tmp_path: Path) -> None:
    for name, array in {"x": X, "y": Y, "group": np.array([5, 5, 6, 6])}.items():
        np.save(tmp_path / f"hands_{name}.npy", array)
        np.save(tmp_path / f"{name}.npy", array)
    pair = read_npy(tmp_path / "hands_x.npy")
    folder = load(str(tmp_path))
    assert (pair.name, folder.name) == ("hands", tmp_path.name)
    for found in (pair, folder, load(str(tmp_path / "x.npy"))):
        assert found.x.tobytes() == X[:, np.newaxis].tobytes()
        assert found.y.tolist() == Y.tolist()
        assert found.groups is not None and found.groups.tolist() == [5, 5, 6, 6]
    with pytest.raises(DataError, match=r"hands_y.npy; expected a file x.npy or NAME_x.npy"):
        read_npy(tmp_path / "hands_y.npy")


def test_an_x_alone_says_what_is_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(DataError, match="no array y or y_train among x; expected one of them"):
        read_npy(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("axes", "shape"),
    [("", (4, 1, 2, 3)), ("NHW", (4, 1, 2, 3)), ("NCL", (4, 2, 3)), ("NLC", (4, 3, 2))],
)
def test_axes_are_what_the_caller_says(tmp_path: Path, axes: str, shape: tuple[int, ...]) -> None:
    found = read_npz(npz(tmp_path), Reading(axes=axes))
    assert found.x.shape == shape
    assert found.x.flags.c_contiguous
    assert found.x[1].reshape(-1).tolist() == (X[1].T if axes == "NLC" else X[1]).reshape(-1).tolist()


def test_channels_may_come_last(tmp_path: Path) -> None:
    pictures = np.arange(4 * 2 * 3 * 3, dtype=np.uint8).reshape(4, 2, 3, 3)
    found = read_npz(npz(tmp_path, x=pictures), Reading(axes="NHWC"))
    assert found.x[0, 1].tolist() == pictures[0, :, :, 1].tolist()
    with pytest.raises(DataError, match=r"x is uint8 \(4, 2, 3, 3\); expected 3 axes, NCL"):
        read_npz(npz(tmp_path, x=pictures), Reading(axes="NCL"))
    with pytest.raises(DataError, match="axes=NWH; expected one of"):
        Reading(axes="NWH")


def test_texts_are_classes_and_people(tmp_path: Path) -> None:
    names = {"y": np.array(["no", "yes", "no", "no"]), "speaker": np.array(["cy", "al", "al", "cy"])}
    found = read_npz(npz(tmp_path, **names, y_test=np.array(["yes"]), x_test=X[:1]))
    assert (found.class_names, found.y.tolist(), found.classes) == (("no", "yes"), [0, 1, 0, 0], 2)
    assert found.groups is not None and found.y_test is not None
    assert (found.group_names, found.groups.tolist()) == (("al", "cy"), [1, 0, 0, 1])
    assert found.y_test.tolist() == [1]
    with pytest.raises(DataError, match="y_test has 'maybe'; expected one of no, yes"):
        read_npz(npz(tmp_path, **names, y_test=np.array(["maybe"]), x_test=X[:1]))


def test_times_are_numbers_or_dates(tmp_path: Path) -> None:
    dates = np.array(["2026-01-02", "2026-01-01", "2026-01-03", "2026-01-04"], "datetime64[D]")
    found = read_npz(npz(tmp_path, seen=dates), Reading(time="seen")).times
    assert found is not None and (found - found[1]).tolist() == [86400, 0, 2 * 86400, 3 * 86400]
    assert read_npz(npz(tmp_path)).times is None
    with pytest.raises(DataError, match=r"time is <U1 \(4,\); expected numbers or dates"):
        read_npz(npz(tmp_path, time=np.array(list("abcd"))))
    with pytest.raises(DataError, match=r"times\[1\] is nan; expected finite values"):
        read_npz(npz(tmp_path, time=np.array([0, np.nan, 1, 2])))


def test_ids_of_words_have_a_vocabulary(tmp_path: Path) -> None:
    ids = np.array([[3, 0], [1, 7], [2, 2], [5, 6]])
    assert read_npz(npz(tmp_path, x=ids)).vocabulary == 8
    assert read_npz(npz(tmp_path, x=ids, vocabulary=np.array(90))).vocabulary == 90
    assert read_npz(npz(tmp_path, x=ids.astype(np.float32))).vocabulary is None
    assert read_npz(npz(tmp_path, x=ids.astype(np.uint8))).vocabulary is None


def test_the_label_may_have_any_name(tmp_path: Path) -> None:
    found = read_npz(npz(tmp_path, mood=np.array([2, 0, 1, 1])), Reading(label="mood"))
    assert (found.y.tolist(), found.classes) == ([2, 0, 1, 1], 3)
    with pytest.raises(DataError, match="no array age or age_train among x, y; expected one of them"):
        read_npz(npz(tmp_path), Reading(label="age"))
