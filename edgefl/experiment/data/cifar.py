"""CIFAR-10 and CIFAR-100, binary version.

Krizhevsky describes the format at https://www.cs.toronto.edu/~kriz/cifar.html. A record has one label byte and 3,072
image bytes, which are the red, green and blue plane of 32x32, row by row. CIFAR-100 has two label bytes, first the
coarse and then the fine label. The pickled Python version is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.archive import entries
from edgefl.experiment.data.checked_reader import expect_end, read_exactly
from edgefl.experiment.data.dataset import Array, DataSet, Shape

_IMAGE = (3, 32, 32)
_IMAGE_BYTES = 3072


@dataclass(frozen=True)
class CifarSet:
    """A published data set in binary batches of `records` images each. The last label byte is the class."""

    name: str
    classes: int
    label_bytes: int
    train_files: tuple[str, ...]
    train_records: int  # number of images in each training file
    test_file: str
    test_records: int

    @property
    def files(self) -> tuple[str, ...]:
        return *self.train_files, self.test_file

    @property
    def input_shape(self) -> Shape:
        """Return the shape of one example."""
        return _IMAGE

    def read(self, source: Path) -> DataSet:
        """Read the data set. Inputs are scaled to [-1, 1], as FedSPU does.

        Raises  DataError naming the file that is missing or damaged, the value and what was expected.
        """
        found: dict[str, Array] = {}
        for path, stream in entries(source, lambda path: PurePosixPath(path).name in self.files):
            name = PurePosixPath(path).name
            count = self.test_records if name == self.test_file else self.train_records
            width = self.label_bytes + _IMAGE_BYTES
            data = read_exactly(stream, count * width, f"{source}: {path}")
            expect_end(stream, f"{source}: {path}")
            found[name] = np.frombuffer(data, np.uint8).reshape(count, width)
        missing = [name for name in self.files if name not in found]
        if missing:
            raise DataError(f"{source}: no {missing[0]}; expected a file of this name")
        x, y = self._examples(np.concatenate([found[name] for name in self.train_files]))
        x_test, y_test = self._examples(found[self.test_file])
        return DataSet(self.name, x, y, self.classes, scale=2 / 255, shift=-1.0, x_test=x_test, y_test=y_test)

    def _examples(self, records: Array) -> tuple[Array, Array]:
        images = np.ascontiguousarray(records[:, self.label_bytes :]).reshape(-1, *_IMAGE)
        return images, records[:, self.label_bytes - 1].astype(np.int32)
