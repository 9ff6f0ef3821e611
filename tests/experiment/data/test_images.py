"""Folders of images, made here by Pillow."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.images import read_images

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def draw(path: Path, pixels: object, mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8), mode).save(path)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    draw(folder / "b" / "anna_1.png", [[1, 2], [3, 4]])
    draw(folder / "a" / "ben_1.png", [[5, 6], [7, 8]])
    draw(folder / "a" / "deep" / "anna_2.PNG", [[9, 9], [9, 9]])
    (folder / "a" / "notes.txt").write_text("no image")
    return folder


def test_a_folder_is_a_class(letters: Path) -> None:
    found = load(str(letters), reading=Reading(group=r"(\w+)_\d"))
    assert (found.x.shape, found.x.dtype, found.scale) == ((3, 1, 2, 2), np.uint8, 1 / 255)
    assert (found.class_names, found.y.tolist()) == (("a", "b"), [0, 0, 1])
    assert found.x[2, 0].tolist() == [[1, 2], [3, 4]]
    assert found.groups is not None
    assert (found.group_names, found.groups.tolist()) == (("anna", "ben"), [1, 0, 0])


def test_one_colour_makes_all_of_them_colours(letters: Path) -> None:
    draw(letters / "b" / "red.png", np.full((2, 2, 3), (200, 0, 9)), "RGB")
    found = read_images(letters)
    assert found.x.shape == (4, 3, 2, 2)
    assert found.x[3, :, 0, 0].tolist() == [200, 0, 9]
    assert found.x[2, :, 1, 1].tolist() == [4, 4, 4]


def test_sizes_are_made_one_or_named(letters: Path) -> None:
    draw(letters / "b" / "large.png", np.full((6, 4), 8))
    with pytest.raises(DataError, match=r"large.png has 4 x 6 pixels and .* 2 x 2; expected one size"):
        read_images(letters)
    found = read_images(letters, Reading(size=4))
    assert found.x.shape == (4, 1, 4, 4)
    assert (found.x[3] == 8).all()


@pytest.mark.parametrize(
    ("group", "message"),
    [("(", "expected a regular expression"), ("_", "has no brackets"), (r"(\d+)x", "'ben_1.png' has no group by")],
)
def test_a_pattern_that_is_none_is_named(letters: Path, group: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_images(letters, Reading(group=group))
    assert message in str(error.value)


def test_a_damaged_image_is_named(letters: Path) -> None:
    (letters / "b" / "anna_1.png").write_bytes(b"\x89PNG but not for long")
    with pytest.raises(DataError, match=r"anna_1.png: .*; expected an image"):
        read_images(letters)


def parts(folder: Path, *names: str) -> Path:
    """Grey images of one pixel, whose value is the place of the name among all names."""
    for value, name in enumerate(names):
        draw(folder / f"{name}.png", [[value]])
    return folder


@pytest.mark.parametrize(
    ("names", "pool", "test", "note"),
    [
        (
            ("train/cat/1", "train/dog/2", "test/dog/3"),
            [(0, 0), (1, 1)],
            [(2, 1)],
            "clients own the samples in train; test is the test",
        ),
        (("Train/cat/1", "Test/cat/2"), [(0, 0)], [(1, 0)], "clients own the samples in Train; Test is the test part"),
        (("train/cat/1", "val/cat/2"), [(0, 0)], [(1, 0)], "clients own the samples in train; val is the test part"),
        (
            ("train/cat/1", "valid/cat/2", "test/cat/3"),
            [(0, 0), (1, 0)],
            [(2, 0)],
            "clients own the samples in train and valid",
        ),
        (("train/cat/1", "train/dog/2"), [(0, 0), (1, 1)], [], "clients own the samples in train$"),
    ],
)
def test_folders_of_parts_are_parts(
    tmp_path: Path, names: tuple[str, ...], pool: list[tuple[int, int]], test: list[tuple[int, int]], note: str
) -> None:
    found = read_images(parts(tmp_path, *names))
    assert list(zip(found.x[:, 0, 0, 0].tolist(), found.y.tolist(), strict=True)) == pool
    x_test, y_test = ([], []) if found.x_test is None else (found.x_test[:, 0, 0, 0].tolist(), found.y_test.tolist())
    assert list(zip(x_test, y_test, strict=True)) == test
    assert set(found.class_names or ()) == {name.split("/")[1] for name in names}
    assert len(found.notes) == 1
    assert re.match(note, found.notes[0])


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    found = read_images(parts(tmp_path, "bus/1", "train/2"))
    assert (found.class_names, found.y.tolist(), found.x_test) == (("bus", "train"), [0, 1], None)


def test_groups_of_parts_have_one_numbering(tmp_path: Path) -> None:
    found = read_images(parts(tmp_path, "train/cat/ben_1", "test/cat/anna_1"), Reading(group=r"(\w+)_"))
    assert found.groups is not None and found.groups_test is not None
    assert (found.group_names, found.groups.tolist(), found.groups_test.tolist()) == (("anna", "ben"), [1], [0])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("train/1", "val/2"),
            "1.png lies in no folder of a class; expected train/CLASS/1.png, since train names a part",
        ),
        (("train/cat/1", "test/2"), "2.png lies in no folder of a class; expected test/CLASS/2.png"),
        (("test/cat/1",), "has test and no train; expected train/CLASS as well"),
        (
            ("train/cat/1", "test/cat/2", "bus/3"),
            "has bus, test, train; expected a folder for each class, or only the parts",
        ),
        (("train/cat/1", "test/dog/2"), "has images of 'dog' only in the test part; expected some in train"),
    ],
)
def test_folders_that_may_be_parts_or_classes_are_named(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError) as error:
        read_images(parts(tmp_path, *names))
    assert message in str(error.value)


def test_a_format_that_is_not_read_is_named(letters: Path) -> None:
    (letters / "b" / "photo.HEIC").write_bytes(b"ftypheic")
    with pytest.raises(DataError, match=r"photo.HEIC is an image of a format that is not read; expected JPEG or PNG"):
        read_images(letters)
