"""Images in folders: FOLDER/CLASS/**/*.png, jpg and others that Pillow reads. A class has its folder's name.

Pillow is the library for image files; only this file needs it. All images become grey if all of them are, else colours.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.dataset import Array, DataSet, Groups
from edgefl.experiment.data.label_names import numbered

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
GREY = ("1", "L", "LA", "I", "I;16", "F")
USED = ("group", "size")


def has_images(folder: Path) -> bool:
    """Whether some folder in this one has an image."""
    return any(_images(child) for child in _folders(folder))


def read_images(folder: Path, reading: Reading | None = None) -> DataSet:
    """The data set of that folder, named after it: uint8 [N, 1 or 3, H, W].

    Raises  DataError naming the file and what was expected; or that Pillow is missing.
    """
    reading = reading or Reading()
    reading.check(str(folder), *USED)
    if importlib.util.find_spec("PIL") is None:
        raise DataError(f"{folder} has images, and Pillow is not installed; expected: pip install pillow")
    found = [(path, child.name) for child in _folders(folder) for path in _images(child)]
    if not found:
        raise DataError(f"{folder} has no folder with images; expected CLASS/*{', *'.join(SUFFIXES[:3])} or others")
    paths = [path for path, _ in found]
    y, names = numbered([name for _, name in found])
    groups, group_names = _groups(folder, paths, reading.group) if reading.group else (None, ())
    x = _pixels(paths, reading.size)
    named: dict[str, Any] = {"class_names": names, "group_names": group_names or None}
    return DataSet(folder.name, x, y, len(names), 1 / 255, 0.0, groups, **named)


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def _groups(folder: Path, paths: list[Path], pattern: str) -> Groups:
    """Whom each image comes from, by what is in its path below its class's folder."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise DataError(f"group={pattern!r}: {error}; expected a regular expression") from None
    if wanted.groups < 1:
        raise DataError(f"group={pattern!r} has no brackets; expected some around what names the group, as in '^(.+)_'")
    found = []
    for path in paths:
        below = Path(*path.relative_to(folder).parts[1:]).as_posix()
        match = wanted.search(below)
        if match is None or not match[1]:
            raise DataError(f"{path}: {below!r} has no group by {pattern!r}; expected one in every image's path")
        found.append(match[1])
    return numbered(found)


def _pixels(paths: list[Path], size: int) -> Array:
    """uint8 [N, 1 or 3, H, W] of images that have one size, or are given one."""
    heads = [_opened(path, lambda image: (image.mode, image.size)) for path in paths]
    mode = "L" if all(mode in GREY for mode, _ in heads) else "RGB"
    width, height = (size, size) if size else heads[0][1]
    for path, (_, found) in zip(paths, heads, strict=True):
        if not size and found != (width, height):
            raise DataError(
                f"{path} has {found[0]} x {found[1]} pixels and {paths[0].name} {width} x {height}; expected one size, "
                "or the size that all are to have (--image-size)"
            )
    x = np.empty((len(paths), 1 if mode == "L" else 3, height, width), np.uint8)
    for at, path in enumerate(paths):
        plane = _opened(path, lambda image: _scaled(image, mode, width, height))
        x[at] = plane[np.newaxis] if mode == "L" else plane.transpose(2, 0, 1)
    return x


def _scaled(image: Any, mode: str, width: int, height: int) -> Array:
    if image.mode in ("I", "I;16"):  # Pillow cuts 16 bits off at 255
        image = image.point(lambda value: value / 256)
    image = image.convert(mode)
    return np.asarray(image if image.size == (width, height) else image.resize((width, height)), np.uint8)


def _opened(path: Path, read: Any) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return read(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # Pillow's, for damaged files
        raise DataError(f"{path}: {error}; expected an image") from error
