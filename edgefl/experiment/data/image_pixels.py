"""The pixels of one image file as bytes, for every mode and depth. The files of a data set are found by images.py.

Pillow is the library for image files, and only this file needs it. A photograph is turned as its EXIF orientation says.
Transparent pixels are laid on white. Grey values of more than 8 bits keep their 8 highest bits, of the depth that all
the files together use. The caller finds that depth with `head` and `depth_of`, and passes it to `pixels`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.optional_package import check_installed

GREY = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
COLOURS = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV")
DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # whole numbers of more than 8 bits
DEPTHS = (8, 10, 12, 14, 16)  # numbers of bits that cameras and scanners store in 16 bits
ORIENTATION = 0x112  # the EXIF tag
ON_ITS_SIDE = 5  # the first of the four orientations that exchange rows and columns


class ImageBytes(NamedTuple):
    """The content of an image file that lies in another file, and a name that says where it lies in that file."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


ImageFile = Path | ImageBytes


@dataclass(frozen=True)
class ImageHead:
    """The properties of an image that must be known for all images before the first image is read.

    is_grey      whether the image has no colours
    size         (width, height) in pixels as the image is looked at
    largest      the largest value of an image of more than 8 bits. None for other images
    is_float     whether the values are floating-point numbers
    transparent  whether some pixel is not opaque
    frames       number of pictures in the file, of which the first is taken
    """

    is_grey: bool
    size: tuple[int, int]
    largest: float | None = None
    is_float: bool = False
    transparent: bool = False
    frames: int = 1


def head(path: ImageFile) -> ImageHead:
    """Read the properties of the file at `path`. Raises DataError that names the file, and the mode or the value that
    cannot be read.
    """
    return _opened(path, lambda image: _head(path, image))


def pixels(path: ImageFile, is_grey: bool, size: tuple[int, int], bits: int, unit: bool) -> Array:
    """Read the file at `path` as uint8 [1 or 3, height, width].

    is_grey  whether one channel is wanted, and not three
    size     (width, height) in pixels to which the image is scaled if it has another size
    bits     depth of the grey values that have more than 8 bits (`depth_of`)
    unit     whether floating-point values go from 0 to 1, and not to 255
    """
    plane = _opened(path, lambda image: _pixels(image, is_grey, size, bits, unit))
    return plane[np.newaxis] if is_grey else np.ascontiguousarray(plane.transpose(2, 0, 1))


def depth_of(heads: Sequence[ImageHead]) -> int:
    """Return the bits that the whole-numbered deep images use: the fewest bits of DEPTHS that hold all their values."""
    largest = max((one.largest for one in heads if one.largest is not None and not one.is_float), default=0)
    return next(bits for bits in DEPTHS if largest < 2**bits)


def is_unit(heads: Sequence[ImageHead]) -> bool:
    """Return whether no image of floating-point numbers has a value above 1."""
    return max((one.largest for one in heads if one.largest is not None and one.is_float), default=0) <= 1


def _head(path: ImageFile, image: Any) -> ImageHead:
    if image.mode not in (*GREY, *COLOURS):
        raise DataError(
            f"{path} has pixels of mode {image.mode!r}; expected grey, palette, RGB or CMYK: save the image as RGB"
        )
    size = image.size[::-1] if image.getexif().get(ORIENTATION, 1) >= ON_ITS_SIDE else image.size
    frames, is_float = int(getattr(image, "n_frames", 1)), image.mode == "F"
    is_deep = is_float or image.mode in DEEP
    transparent = not is_deep and image.has_transparency_data and _alpha(image).min() < 255
    largest = _largest(path, image) if is_deep else None
    return ImageHead(image.mode in GREY, size, largest, is_float, bool(transparent), frames)


def _largest(path: ImageFile, image: Any) -> float:
    """Return the largest value. Raises DataError for values that a picture cannot have."""
    values = np.asarray(image)
    most = 255 if image.mode == "F" else 2**16 - 1
    wrong = ~((values >= 0) & (values <= most))
    if wrong.any():
        row, column = (int(at) for at in np.unravel_index(int(np.argmax(wrong)), values.shape))
        kind = (
            "floating-point numbers from 0 to 1, or from 0 to 255"
            if image.mode == "F"
            else f"whole numbers from 0 to {most}"
        )
        raise DataError(f"{path} has {values[row, column]} in row {row}, column {column}; expected {kind}")
    return float(values.max())


def _alpha(image: Any) -> Array:
    return np.asarray(image.convert("RGBA").getchannel("A"))


def _pixels(image: Any, is_grey: bool, size: tuple[int, int], bits: int, unit: bool) -> Array:
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in DEEP:
        image = Image.fromarray((np.asarray(image).astype(np.int64) >> (bits - 8)).astype(np.uint8))
    elif image.mode == "F":
        values = np.asarray(image) * (255.0 if unit else 1.0)
        image = Image.fromarray((np.rint(values) if unit else values).astype(np.uint8))
    elif image.has_transparency_data:
        image = _on_white(image)
    image = image.convert("L" if is_grey else "RGB")
    return np.asarray(image if image.size == size else image.resize(size), np.uint8)


def _on_white(image: Any) -> Any:
    """Return the image as it is seen on a white page. An opaque image keeps its colours to the bit."""
    from PIL import Image

    if _alpha(image).min() == 255:
        return image
    seen = image.convert("RGBA")
    page = Image.new("RGBA", seen.size, (255, 255, 255, 255))
    return Image.alpha_composite(page, seen).convert("RGB")


def _opened(path: ImageFile, read: Callable[[Any], Any]) -> Any:
    check_installed(path, "PIL")
    from PIL import Image

    try:
        with Image.open(io.BytesIO(path.content) if isinstance(path, ImageBytes) else path) as image:
            return read(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # from Pillow, for damaged files
        raise DataError(f"{path}: {error}; expected an image") from error
