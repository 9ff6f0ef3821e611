"""IDX files: written files are read, gzipped or not, in folders and archives. Every kind of damage is named."""

import gzip
import struct
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load, shape_of
from edgefl.experiment.data.idx import IdxSet

TINY = IdxSet("tiny", classes=3, train_count=4, test_count=2, side=3)
IMAGES = np.arange(36, dtype=np.uint8).reshape(4, 3, 3)
LABELS = np.array([0, 2, 1, 2], np.uint8)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def contents(data: IdxSet = TINY) -> dict[str, bytes]:
    arrays = (IMAGES, LABELS, IMAGES[:2], LABELS[:2])
    return {name: idx(array) for name, array in zip(data.files, arrays, strict=True)}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("zipped", [False, True])
def test_reads_what_was_written(tmp_path: Path, zipped: bool) -> None:
    files = {f"{n}.gz": gzip.compress(d) for n, d in contents().items()} if zipped else contents()
    data = TINY.read(write(tmp_path, files))
    assert data.x.tolist() == IMAGES[:, np.newaxis].tolist() and data.y.tolist() == [0, 2, 1, 2]
    assert data.x_test is not None and data.x_test.shape == (2, 1, 3, 3)
    assert data.y_test is not None and data.y_test.tolist() == [0, 2]
    assert (data.scale, data.shift, data.classes) == (1 / 255, 0.0, 3)


def test_emnist_is_read_from_its_archive_turned_and_counted_from_zero(tmp_path: Path) -> None:
    letters = replace(TINY, train="emnist-l-train", test="emnist-l-test", first_label=1, transposed=True)
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        arrays = (IMAGES, LABELS + 1, IMAGES[:2], LABELS[:2] + 1)
        for name, array in zip(letters.files, arrays, strict=True):
            archive.writestr(f"gzip/{name}.gz", gzip.compress(idx(array)))
    data = letters.read(tmp_path / "gzip.zip")
    assert data.x[0, 0].tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert data.y.tolist() == [0, 2, 1, 2]


IMAGE_FILE, LABEL_FILE = TINY.files[:2]


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        (IMAGE_FILE, lambda d: b"\x00\x00\x0d\x03" + d[4:], "magic 0x00000d03; expected 0x00000803"),
        (IMAGE_FILE, lambda d: d[:-1], "ends after 35 bytes of content; expected 36"),
        (IMAGE_FILE, lambda d: d[:2], "ends after 2 bytes of content; expected 4"),
        (IMAGE_FILE, lambda d: d + b"\x00", "bytes after its content"),
        (IMAGE_FILE, lambda d: idx(IMAGES[:3]), r"extents \(3, 3, 3\); expected \(4, 3, 3\)"),
        (LABEL_FILE, lambda d: idx(LABELS[:3]), r"extents \(3,\); expected \(4,\)"),
        (IMAGE_FILE, lambda d: gzip.compress(d)[:-9], "expected an undamaged file"),
        (IMAGE_FILE, lambda d: b"\x1f\x8b" + d, "expected an undamaged file"),
    ],
)
def test_damage_is_named(tmp_path: Path, file: str, damage, message: str) -> None:
    write(tmp_path, contents() | {file: damage(contents()[file])})
    with pytest.raises(DataError, match=f"{file}: .*{message}"):
        TINY.read(tmp_path)


def test_label_out_of_range_is_named(tmp_path: Path) -> None:
    write(tmp_path, contents() | {LABEL_FILE: idx(np.array([0, 3, 1, 2], np.uint8))})
    with pytest.raises(DataError, match=r"tiny: y\[1\] is 3; expected 0 <= label < 3"):
        TINY.read(tmp_path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    files = contents()
    del files[LABEL_FILE]
    with pytest.raises(DataError, match=f"no {LABEL_FILE}"):
        TINY.read(write(tmp_path, files))


def test_claimed_size_is_not_allocated(tmp_path: Path) -> None:
    huge = replace(TINY, train_count=2**31)
    claim = b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 3, 3) + IMAGES.tobytes()
    write(tmp_path, contents() | {IMAGE_FILE: claim})
    tracemalloc.start()
    with pytest.raises(DataError, match=f"ends after 36 bytes of content; expected {9 * 2**31}"):
        huge.read(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_real_fashion_mnist(real_data: Path) -> None:
    data = load("fashion-mnist", real_data, fetch=False)
    assert data.x.shape == (60_000, 1, 28, 28)
    assert shape_of("mnist") == (1, 28, 28)
    assert np.bincount(data.y).tolist() == [6000] * 10
    assert data.y_test is not None and np.bincount(data.y_test).tolist() == [1000] * 10
    mean, deviation = 0.2860, 0.3530  # of the training images in [0, 1], as published with many models
    assert data.x.mean() / 255 == pytest.approx(mean, abs=1e-4)
    assert data.x.std() / 255 == pytest.approx(deviation, abs=1e-4)
