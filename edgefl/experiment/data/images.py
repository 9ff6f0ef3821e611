"""Folders of images: FOLDER/CLASS/**/*.png, jpg and others, or such folders below FOLDER/train and FOLDER/test. A class
has its folder's name. image_pixels.py reads the pixels of a file.

If all images are grey, they have one channel. Otherwise all images get three.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data import image_pixels
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.data.image_pixels import ImageFile, ImageHead
from edgefl.experiment.data.label_names import numbered
from edgefl.experiment.data.optional_package import check_installed

SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".bmp", ".gif", ".webp", ".avif", ".tif", ".tiff", ".tga", ".pbm",
    ".pgm", ".ppm", ".pnm",
)  # fmt: skip
UNREAD = (".heic", ".heif", ".dng", ".cr2", ".nef", ".arw", ".svg", ".dcm")  # images that Pillow does not read
TRAINING, VALIDATION, TESTS = ("train", "training"), ("val", "valid", "validation"), ("test", "testing")
PARTS = (*TRAINING, *VALIDATION, *TESTS)  # parts and not classes, if all folders are named so
USED = ("group", "size")


class _Image(NamedTuple):
    """A file, its class, its path below the class's folder, and whether the file belongs to the published test part."""

    path: Path
    label: str
    below: str
    is_test: bool


def has_images(folder: Path) -> bool:
    """Return whether some folder in this folder has an image."""
    return any(images_in(child) for child in _folders(folder))


def read_images(folder: Path, reading: Reading | None = None) -> DataSet:
    """Read the data set of a folder, named after the folder: uint8 [N, 1 or 3, H, W].

    Raises  DataError naming the file or the folder and what was expected, or saying that Pillow is missing.
    """
    reading = reading or Reading()
    reading.check(str(folder), *USED)
    check_installed(folder, "PIL")
    found, notes = _found(folder)
    if not found:
        raise DataError(f"{folder} has no folder with images; expected CLASS/*{', *'.join(SUFFIXES[:3])} or others")
    y, names = numbered([each.label for each in found])
    ids, group_names = _groups(found, reading.group) if reading.group else (None, ())
    x, said = read_pixels([each.path for each in found], reading.size)
    test = np.array([each.is_test for each in found])
    _check_labels(folder, y, names, test)
    named: dict[str, Any] = {"class_names": names, "group_names": group_names or None, "notes": (*notes, *said)}
    groups = None if ids is None else ids[~test]
    if test.any():
        named |= {"x_test": x[test], "y_test": y[test], "groups_test": None if ids is None else ids[test]}
        x, y = x[~test], y[~test]
    return DataSet(folder.name, x, y, len(names), 1 / 255, 0.0, groups, **named)


def images_in(folder: Path) -> list[Path]:
    """Return the image files in and below this folder. Raises DataError for an image of a format that is not read."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    unread = next((path for path in files if path.suffix.lower() in UNREAD), None)
    if unread is not None:
        raise DataError(f"{unread} is an image of a format that is not read; expected JPEG or PNG: convert it")
    return [path for path in files if path.suffix.lower() in SUFFIXES]


def read_pixels(paths: Sequence[ImageFile], size: int, is_grey: bool | None = None) -> tuple[Array, tuple[str, ...]]:
    """Read images as uint8 [N, 1 or 3, H, W], and say in sentences what was done to them.

    size     the rows and the columns that all images get. 0: the images have one size
    is_grey  whether there is to be one channel. None: there is one if all images are grey
    Raises   DataError naming the file.
    """
    heads = [image_pixels.head(path) for path in paths]
    if is_grey is None:
        is_grey = all(one.is_grey for one in heads)
    width, height = (size, size) if size else heads[0].size
    for path, one in zip(paths, heads, strict=True):
        if not size and one.size != (width, height):
            raise DataError(
                f"{path} has {one.size[0]} x {one.size[1]} pixels and {paths[0].name} {width} x {height}; expected one "
                "size, or the size that all are to have (--image-size)"
            )
    x = np.empty((len(paths), 1 if is_grey else 3, height, width), np.uint8)
    bits, unit = image_pixels.depth_of(heads), image_pixels.is_unit(heads)
    for at, path in enumerate(paths):
        x[at] = image_pixels.pixels(path, is_grey, (width, height), bits, unit)
    return x, _notes(heads, bits, unit)


def _notes(heads: Sequence[ImageHead], bits: int, unit: bool) -> tuple[str, ...]:
    """Return notes about the changes that the reader made to the pixels of the files."""
    transparent = sum(one.transparent for one in heads)
    several = sum(one.frames > 1 for one in heads)
    deep = [one.largest for one in heads if one.largest is not None and not one.is_float]
    floats = [one.largest for one in heads if one.largest is not None and one.is_float]
    said = []
    if transparent:
        said.append(f"{transparent} images are transparent in places; these places are white")
    if several:
        said.append(f"{several} files have several pictures each; the first picture of each is taken")
    if deep:
        said.append(f"{len(deep)} images have 16 bits and values up to {max(deep):g}; they are taken as {bits} bits")
    if floats:
        said.append(f"{len(floats)} images have values up to {max(floats):g}; white is taken as {1 if unit else 255}")
    return tuple(said)


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _found(folder: Path) -> tuple[list[_Image], tuple[str, ...]]:
    """Find the images of a folder. If its folders are parts of the data, a note says which part each folder is.

    Raises  DataError where folders are named like parts, and are not laid out like parts.
    """
    filled = [child for child in _folders(folder) if images_in(child)]
    parts = [child for child in filled if child.name.lower() in PARTS]
    if not parts or (len(parts) == 1 and len(filled) > 1):  # a class may be called "train"
        return [each for child in filled for each in _of_class(child, False)], ()
    listed = ", ".join(child.name for child in filled)
    if len(parts) < len(filled):
        raise DataError(f"{folder} has {listed}; expected a folder for each class, or only the parts train and test")
    for part in parts:
        direct = next((path for path in images_in(part) if path.parent == part), None)
        if direct is not None:
            raise DataError(
                f"{direct} lies in no folder of a class; expected {part.name}/CLASS/{direct.name}, since "
                f"{part.name} names a part of the data"
            )
    return _in_parts(folder, parts)


def _in_parts(folder: Path, parts: list[Path]) -> tuple[list[_Image], tuple[str, ...]]:
    """Find the images of train/CLASS, test/CLASS and val/CLASS. Validation images are the test part if there is no
    other test part. Otherwise they join the pool, because every client carves its own validation part.
    """
    test_names = tests_among([part.name for part in parts])
    tests = {part for part in parts if part.name in test_names}
    if len(tests) == len(parts):
        raise DataError(f"{folder} has {parts[0].name} and no train; expected train/CLASS as well")
    found = [
        each
        for part in parts
        for child in _folders(part)
        if images_in(child)
        for each in _of_class(child, part in tests)
    ]
    return found, (parts_note([part.name for part in parts], test_names),)


def tests_among(parts: Sequence[str]) -> set[str]:
    """Return the names of the parts that are the test part: test, or validation if there is no test."""
    tests = {name for name in parts if name.lower() in TESTS}
    return tests or {name for name in parts if name.lower() in VALIDATION}


def parts_note(parts: Sequence[str], tests: set[str]) -> str:
    """Return a sentence that says which parts the clients own, and which part is the test part."""
    tested = f"; {' and '.join(name for name in parts if name in tests)} is the test part" if tests else ""
    return f"clients own the samples in {' and '.join(name for name in parts if name not in tests)}{tested}"


def _of_class(folder: Path, is_test: bool) -> list[_Image]:
    return [_Image(path, folder.name, path.relative_to(folder).as_posix(), is_test) for path in images_in(folder)]


def _check_labels(folder: Path, y: Array, names: Sequence[str], test: Array) -> None:
    """Raise DataError if a class of the test part has no image in the training part."""
    only = sorted(set(y[test].tolist()) - set(y[~test].tolist()))
    if only:
        raise DataError(f"{folder} has images of {names[only[0]]!r} only in the test part; expected some in train")


def _groups(images: Sequence[_Image], pattern: str) -> tuple[Array, tuple[str, ...]]:
    """Find the group of each image by a regular expression, searched for in the path below the class's folder."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise DataError(f"group={pattern!r}: {error}; expected a regular expression") from None
    if wanted.groups < 1:
        raise DataError(
            f"group={pattern!r} has no brackets; expected brackets around the name of the group, as in '^(.+)_'"
        )
    found = []
    for path, _, below, _ in images:
        match = wanted.search(below)
        if match is None or not match[1]:
            raise DataError(f"{path}: {below!r} has no group by {pattern!r}; expected one in every image's path")
        found.append(match[1])
    return numbered(found)
