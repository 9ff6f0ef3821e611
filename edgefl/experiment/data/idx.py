"""IDX files: MNIST, Fashion-MNIST and the EMNIST splits.

LeCun describes the format at http://yann.lecun.com/exdb/mnist/. A file has two zero bytes, the type (8 = uint8), the
number of dimensions, each extent as a big-endian uint32, then the values with the last dimension fastest. It may be
compressed with gzip.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.archive import entries
from edgefl.experiment.data.checked_reader import expect_end, read_exactly
from edgefl.experiment.data.dataset import Array, DataSet, Shape


def read_idx(stream: BinaryIO, what: str, shape: tuple[int, ...]) -> Array:
    """Read the uint8 array of an IDX file. Errors call the file `what`.

    shape   the expected extents, with which the header is compared before the content is read
    Raises  DataError if magic, extents or length differ.
    """
    header = bytes(read_exactly(stream, 4, what))
    expected = bytes([0, 0, 8, len(shape)])
    if header != expected:
        raise DataError(f"{what}: magic 0x{header.hex()}; expected 0x{expected.hex()} (uint8, {len(shape)} dimensions)")
    extents = struct.unpack(f">{len(shape)}I", read_exactly(stream, 4 * len(shape), what))
    if extents != shape:
        raise DataError(f"{what}: extents {extents}; expected {shape}")
    data = read_exactly(stream, math.prod(shape), what)
    expect_end(stream, what)
    return np.frombuffer(data, np.uint8).reshape(shape)


@dataclass(frozen=True)
class IdxSet:
    """A published data set in four IDX files.

    train, test               beginnings of the names of a part's two files: "train" for train-images-idx3-ubyte
    train_count, test_count   numbers of images in the parts
    side                      rows and columns of an image
    first_label               the label of class 0 in the files (1 in EMNIST letters)
    transposed                whether images are stored column by column (EMNIST), and are transposed on reading
    """

    name: str
    classes: int
    train_count: int
    test_count: int
    train: str = "train"
    test: str = "t10k"
    side: int = 28
    first_label: int = 0
    transposed: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the files, without ".gz"."""
        kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
        return tuple(f"{part}-{kind}" for part in (self.train, self.test) for kind in kinds)

    @property
    def input_shape(self) -> Shape:
        """Return the shape of one example."""
        return 1, self.side, self.side

    def read(self, source: Path) -> DataSet:
        """Read the data set. Raises DataError naming the missing or damaged file, the value and what was expected."""
        found: dict[str, Array] = {}
        for path, stream in entries(source, lambda path: PurePosixPath(path).name in self.files):
            name = PurePosixPath(path).name
            found[name] = read_idx(stream, f"{source}: {path}", self._shape(name))
        missing = [name for name in self.files if name not in found]
        if missing:
            raise DataError(f"{source}: no {missing[0]}; expected a file of this name, gzipped or not")
        x, y, x_test, y_test = (found[name] for name in self.files)
        return DataSet(
            self.name, self._images(x), self._labels(y), self.classes, scale=1 / 255, shift=0.0,
            x_test=self._images(x_test), y_test=self._labels(y_test),
        )  # fmt: skip

    def _shape(self, file: str) -> tuple[int, ...]:
        count = self.train_count if file.startswith(f"{self.train}-") else self.test_count
        return (count, self.side, self.side) if "images" in file else (count,)

    def _images(self, images: Array) -> Array:
        turned = images.swapaxes(1, 2) if self.transposed else images
        return np.ascontiguousarray(turned[:, np.newaxis])

    def _labels(self, labels: Array) -> Array:
        return labels.astype(np.int32) - self.first_label
