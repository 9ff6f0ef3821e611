"""Every mode and depth that Pillow opens: its value by hand, or a refusal that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.images import read_images

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def filled(mode: str, colour: Any) -> Any:
    return Image.new(mode, (2, 2), colour)


def numbers(values: Any, dtype: str) -> Any:
    return Image.fromarray(np.asarray(values, dtype))


def palette(transparent: int | None = None) -> Any:
    """Return an image whose pixels all have colour 1, which is (10, 20, 30). Colour 0 is black."""
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    if transparent is not None:
        image.info["transparency"] = transparent
    return image


CASES = [  # image, suffix, the channels of its first pixel
    ("1 bit white", filled("1", 1), ".png", [255]),
    ("1 bit black", filled("1", 0), ".png", [0]),
    ("1 bit in TIFF", filled("1", 1), ".tif", [255]),
    ("8 bits grey", filled("L", 77), ".png", [77]),
    ("8 bits grey in PGM", filled("L", 77), ".pgm", [77]),
    ("8 bits grey in BMP", filled("L", 77), ".bmp", [77]),
    ("opaque grey", filled("LA", (77, 255)), ".png", [77]),
    ("transparent grey", filled("LA", (77, 0)), ".png", [255]),
    ("half transparent grey", filled("LA", (0, 51)), ".png", [204]),  # 255 * (1 - 51 / 255)
    ("RGB", filled("RGB", (10, 20, 30)), ".png", [10, 20, 30]),
    ("RGB in WebP", filled("RGB", (255, 255, 255)), ".webp", [255, 255, 255]),
    ("RGB in TGA", filled("RGB", (10, 20, 30)), ".tga", [10, 20, 30]),
    ("opaque RGBA", filled("RGBA", (10, 20, 30, 255)), ".png", [10, 20, 30]),
    ("transparent RGBA", filled("RGBA", (10, 20, 30, 0)), ".png", [255, 255, 255]),
    ("half transparent RGBA", filled("RGBA", (0, 0, 255, 51)), ".png", [204, 204, 255]),
    ("palette", palette(), ".png", [10, 20, 30]),
    ("palette in GIF", palette(), ".gif", [10, 20, 30]),
    ("transparent palette", palette(1), ".png", [255, 255, 255]),
    ("palette with another colour transparent", palette(0), ".png", [10, 20, 30]),
    ("CMYK red", filled("CMYK", (0, 255, 255, 0)), ".tif", [255, 0, 0]),
    ("CMYK black", filled("CMYK", (0, 0, 0, 255)), ".tif", [0, 0, 0]),
    ("CMYK in JPEG", filled("CMYK", (0, 0, 0, 255)), ".jpg", [0, 0, 0]),
    ("YCbCr grey", filled("YCbCr", (90, 128, 128)), ".tif", [90, 90, 90]),
    ("16 bits", numbers([[65535, 256]], "u2"), ".png", [255]),
    ("16 bits, dark pixel", numbers([[511, 65535]], "u2"), ".png", [1]),
    ("16 bits in TIFF", numbers([[65535, 256]], "u2"), ".tif", [255]),
    ("16 bits, big endian", numbers([[65535, 256]], ">u2"), ".tif", [255]),
    ("12 bits in 16", numbers([[4095, 16]], "u2"), ".png", [255]),
    ("12 bits in 16, one step", numbers([[16, 4095]], "u2"), ".png", [1]),
    ("10 bits in 16", numbers([[1020, 4]], "u2"), ".png", [255]),
    ("14 bits in 16", numbers([[16383, 64]], "u2"), ".png", [255]),
    ("8 bits in 16", numbers([[200, 3]], "u2"), ".png", [200]),
    ("32-bit whole numbers from 0 to 65535", numbers([[65535, 256]], "i4"), ".tif", [255]),
    ("32-bit whole numbers from 0 to 4095", numbers([[4095, 16]], "i4"), ".tif", [255]),
    ("floats to 1", numbers([[0.2, 1.0]], "f4"), ".tif", [51]),
    ("floats to 255", numbers([[200.0, 3.0]], "f4"), ".tif", [200]),
    ("all black floats", numbers([[0.0, 0.0]], "f4"), ".tif", [0]),
]


@pytest.mark.parametrize(("image", "suffix", "expected"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_a_mode_gives_the_pixels_that_are_seen(tmp_path: Path, image: Any, suffix: str, expected: list[int]) -> None:
    (tmp_path / "a").mkdir()
    image.save(tmp_path / "a" / f"1{suffix}")
    assert read_images(tmp_path).x[0, :, 0, 0].tolist() == expected


REFUSED = [
    (
        "LAB",
        filled("LAB", (128, 0, 0)),
        "has pixels of mode 'LAB'; expected grey, palette, RGB or CMYK: save the image",
    ),
    ("below 0", numbers([[0, -5]], "i4"), "has -5 in row 0, column 1; expected whole numbers from 0 to 65535"),
    (
        "above 16 bits",
        numbers([[70000, 1]], "i4"),
        "has 70000 in row 0, column 0; expected whole numbers from 0 to 65535",
    ),
    ("NaN", numbers([[0.5, np.nan]], "f4"), "has nan in row 0, column 1; expected floating-point numbers from 0 to 1"),
    ("float above", numbers([[256.5, 0]], "f4"), "has 256.5 in row 0, column 0; expected floating-point numbers"),
    ("float below", numbers([[1, -0.5]], "f4"), "has -0.5 in row 0, column 1; expected floating-point numbers"),
]


@pytest.mark.parametrize(("image", "message"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_what_is_no_picture_is_named(tmp_path: Path, image: Any, message: str) -> None:
    (tmp_path / "a").mkdir()
    image.save(tmp_path / "a" / "1.tif")
    with pytest.raises(DataError) as error:
        read_images(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'a' / '1.tif'} {message}")


NOTES = [
    (filled("RGBA", (1, 2, 3, 0)), ".png", "1 images are transparent in places; these places are white"),
    (numbers([[4000, 1]], "u2"), ".png", "1 images have 16 bits and values up to 4000; they are taken as 12 bits"),
    (numbers([[0.5, 1]], "f4"), ".tif", "1 images have values up to 1; white is taken as 1"),
]


@pytest.mark.parametrize(("image", "suffix", "note"), NOTES)
def test_what_was_done_to_pixels_is_said(tmp_path: Path, image: Any, suffix: str, note: str) -> None:
    (tmp_path / "a").mkdir()
    image.save(tmp_path / "a" / f"1{suffix}")
    assert read_images(tmp_path).notes == (note,)


def test_ordinary_images_need_no_words(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    filled("RGB", (1, 2, 3)).save(tmp_path / "a" / "1.png")
    assert read_images(tmp_path).notes == ()


def test_the_first_picture_of_several_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first, second = filled("L", 10), filled("L", 20)
    first.save(tmp_path / "a" / "1.gif", save_all=True, append_images=[second])
    found = read_images(tmp_path)
    assert found.x[0, :, 0, 0].tolist() == [10] * found.x.shape[1]
    assert found.notes == ("1 files have several pictures each; the first picture of each is taken",)


BRIGHT_TOP = np.repeat([[255], [0]], [2, 4], axis=0).repeat(3, axis=1).astype(np.uint8)  # 6 rows, 3 columns


@pytest.mark.parametrize(
    ("orientation", "stored"),
    [
        (1, BRIGHT_TOP),
        (2, BRIGHT_TOP[:, ::-1]),
        (3, BRIGHT_TOP[::-1, ::-1]),
        (4, BRIGHT_TOP[::-1]),
        (5, BRIGHT_TOP.T),
        (6, np.rot90(BRIGHT_TOP, 1)),  # to be turned by 90 degrees clockwise
        (7, np.rot90(BRIGHT_TOP.T, 2)),
        (8, np.rot90(BRIGHT_TOP, -1)),
    ],
)
def test_a_photograph_stands_upright(tmp_path: Path, orientation: int, stored: np.ndarray) -> None:
    (tmp_path / "a").mkdir()
    tag = Image.Exif()
    tag[0x112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "a" / "1.png", exif=tag)
    Image.fromarray(BRIGHT_TOP).save(tmp_path / "a" / "2.png")  # of the same size when looked at
    assert read_images(tmp_path).x[0, 0].tolist() == BRIGHT_TOP.tolist()
