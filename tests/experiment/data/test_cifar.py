"""CIFAR binary files: planes, both label layouts, the tar archive, and damage."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import shape_of
from edgefl.experiment.data.cifar import CifarSet

TEN = CifarSet("ten", 10, 1, ("data_batch_1.bin", "data_batch_2.bin"), 2, "test_batch.bin", 1)
HUNDRED = CifarSet("hundred", 100, 2, ("train.bin",), 2, "test.bin", 1)


def record(labels: list[int], red: int, green: int, blue: int) -> bytes:
    return bytes(labels) + bytes([red] * 1024) + bytes([green] * 1024) + bytes([blue] * 1024)


TEN_FILES = {
    "data_batch_1.bin": record([3], 1, 2, 3) + record([9], 4, 5, 6),
    "data_batch_2.bin": record([0], 7, 8, 9) + record([1], 10, 11, 12),
    "test_batch.bin": record([5], 13, 14, 15),
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_labels_and_planes(tmp_path: Path) -> None:
    data = TEN.read(write(tmp_path, TEN_FILES))
    assert data.y.tolist() == [3, 9, 0, 1]
    assert data.x.shape == (4, 3, 32, 32)
    assert shape_of("cifar10") == (3, 32, 32)
    assert [[int(plane.min()), int(plane.max())] for plane in data.x[1]] == [[4, 4], [5, 5], [6, 6]]
    assert data.y_test is not None and data.y_test.tolist() == [5]
    assert 255 * data.scale + data.shift == 1 and data.shift == -1


def test_cifar100_uses_the_fine_label(tmp_path: Path) -> None:
    train = record([19, 77], 1, 2, 3) + record([2, 0], 4, 5, 6)
    data = HUNDRED.read(write(tmp_path, {"train.bin": train, "test.bin": record([1, 99], 7, 8, 9)}))
    assert data.y.tolist() == [77, 0] and data.y_test is not None and data.y_test.tolist() == [99]


def test_published_archive_is_read_in_place(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:
        for name, content in reversed(TEN_FILES.items()):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert TEN.read(tmp_path / "cifar.tar.gz").x.tobytes() == TEN.read(write(tmp_path, TEN_FILES)).x.tobytes()


def test_rows_come_before_columns(tmp_path: Path) -> None:
    pixels = bytes([4]) + (np.arange(3072) % 251).astype(np.uint8).tobytes()
    data = TEN.read(write(tmp_path, TEN_FILES | {"test_batch.bin": pixels}))
    assert data.x_test is not None
    assert data.x_test[0, 0, 1, 0] == 32 and data.x_test[0, 1, 0, 0] == 1024 % 251


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEN_FILES["test_batch.bin"][:-1], "test_batch.bin: ends after 3072 bytes of content; expected 3073"),
        (TEN_FILES["test_batch.bin"] + b"x", "test_batch.bin: has bytes after its content"),
        (record([10], 1, 2, 3), r"y_test\[0\] is 10; expected 0 <= label < 10"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TEN.read(write(tmp_path, TEN_FILES | {"test_batch.bin": content}))


def test_truncated_archive_is_named(tmp_path: Path) -> None:
    test_published_archive_is_read_in_place(tmp_path)
    archive = tmp_path / "cifar.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"cifar\.tar\.gz"):
        TEN.read(archive)
