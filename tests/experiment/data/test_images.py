"""Folders of images, made here by Pillow."""

from __future__ import annotations

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
